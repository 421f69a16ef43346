// A cache of recently read files, because checking a configuration opens the same files several times.
#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace lacuna {

/// A cache key of files: their names, sizes and modification times.
std::string state_of_files(std::initializer_list<std::filesystem::path> files);

/// The last few values, by the state of the files they were read from. Thread-safe.
template <class T>
class Recent {
 public:
  std::shared_ptr<const T> get(const std::string& state, const std::function<std::shared_ptr<const T>()>& read) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [known, value] : values_)
      if (known == state) return value;
    std::shared_ptr<const T> value = read();
    values_.emplace_front(state, value);
    constexpr std::size_t most = 4;
    if (values_.size() > most) values_.pop_back();
    return value;
  }

 private:
  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<const T>>> values_;
};

}  // namespace lacuna
