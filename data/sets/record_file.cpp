#include "data/sets/record_file.h"

#include "core/error.h"

#include <utility>

namespace lacuna {

RecordFile::RecordFile(std::filesystem::path path, std::int64_t record_bytes)
    : file_(std::move(path)), record_bytes_(record_bytes) {
  if (records() > 0 && file_.size() % record_bytes_ == 0) return;
  reject(
      "{}: expected a whole number of records of {} bytes, got {} bytes ({} records and {} bytes): "
      "the file is truncated or of another kind; fetch it again",
      file_.path().native(), record_bytes_, file_.size(), records(), file_.size() % record_bytes_);
}

}  // namespace lacuna
