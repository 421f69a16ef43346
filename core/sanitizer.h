// Defines LACUNA_ADDRESS_SANITIZER if the address sanitizer is on; GCC and clang report it differently.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define LACUNA_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LACUNA_ADDRESS_SANITIZER 1
#endif
#endif
