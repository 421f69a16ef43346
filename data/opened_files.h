// The files that a data set has read, for its description and its splits.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <utility>

namespace lacuna {

/// Values by type and name, each made once. Thread-safe.
class OpenedFiles {
 public:
  template <class T>
  std::shared_ptr<const T> get(const std::string& name, const std::function<std::shared_ptr<const T>()>& open) {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<const void>& value = values_[{typeid(T), name}];
    if (!value) value = open();
    return std::static_pointer_cast<const T>(value);
  }

 private:
  std::recursive_mutex mutex_;  // an opener may call get
  std::map<std::pair<std::type_index, std::string>, std::shared_ptr<const void>> values_;
};

}  // namespace lacuna
