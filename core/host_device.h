// The one macro: a formula that both the host's and the device's compiler translate.
#pragma once

#ifdef __CUDACC__
#define LACUNA_HOST_DEVICE __host__ __device__
#else
#define LACUNA_HOST_DEVICE
#endif
