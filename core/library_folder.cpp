#include "core/library_folder.h"

#include <dlfcn.h>

namespace lacuna {

std::filesystem::path library_folder() {
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&library_folder), &own) == 0 || own.dli_fname == nullptr) return {};
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::canonical(own.dli_fname, failed).parent_path();
  if (folder.parent_path().filename() == "glibc-hwcaps") return folder.parent_path().parent_path();
  return folder;
}

}  // namespace lacuna
