// The two macros: functions that both the host's and the device's compiler translate, and functions of kernels.
#pragma once

#ifdef __CUDACC__
#define LACUNA_HOST_DEVICE __host__ __device__
#define LACUNA_DEVICE __device__
#else
#define LACUNA_HOST_DEVICE
#define LACUNA_DEVICE
#endif
