// Whether the address sanitizer watches: GCC and clang say so in different ways, and only the preprocessor is told.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define LACUNA_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LACUNA_ADDRESS_SANITIZER 1
#endif
#endif
