#include "core/version.h"

const int LACUNA_VERSION_SYMBOL = 0;
