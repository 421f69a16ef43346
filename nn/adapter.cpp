#include "nn/adapter.h"

namespace lacuna::nn {

Registry<AdapterKind>& adapters() {
  static Registry<AdapterKind> all("adapter");
  return all;
}

}  // namespace lacuna::nn
