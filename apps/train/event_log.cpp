#include "apps/train/event_log.h"

#include "apps/train/run_folder.h"
#include "apps/train/run_record.h"
#include "core/error.h"

#include <fmt/core.h>
#include <unistd.h>
#include <protozero/pbf_builder.hpp>
#include <protozero/pbf_message.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::string_view prefix = "events.out.tfevents.";

static_assert(std::endian::native == std::endian::little, "records are little-endian");

// Fields of tensorflow/core/util/event.proto and framework/summary.proto.
enum class Event : protozero::pbf_tag_type { wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7 };
enum class Summary : protozero::pbf_tag_type { value = 1 };
enum class Value : protozero::pbf_tag_type { tag = 1, simple_value = 2 };
enum class SessionLog : protozero::pbf_tag_type { status = 1 };
constexpr int session_start = 1;

/// CRC-32C (Castagnoli), RFC 3720 appendix B.4. Debian 12 has no library with it.
std::uint32_t crc32c(std::string_view data) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit) entries[i] = entries[i] >> 1 ^ (entries[i] & 1U) * 0x82F63B78U;
    }
    return entries;
  }();
  std::uint32_t crc = ~0U;
  for (const char c : data) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xFFU];
  return ~crc;
}

/// As TFRecord stores it (tensorflow/core/lib/hash/crc32c.h).
std::uint32_t masked_crc(std::string_view data) { return std::rotr(crc32c(data), 15) + 0xA282EAD8U; }

template <class T>
std::string bytes_of(T number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

/// The next record; nothing at the end, or where the file is damaged.
std::optional<std::string> read_record(std::istream& stream) {
  constexpr std::uint64_t longest = 1 << 20;
  const auto take = [&](std::uint64_t count) {
    std::string bytes(count, '\0');
    stream.read(bytes.data(), static_cast<std::streamsize>(count));
    return stream ? bytes : std::string();
  };
  const std::string length = take(sizeof(std::uint64_t));
  if (take(sizeof(std::uint32_t)) != bytes_of(masked_crc(length))) return {};
  std::uint64_t count = 0;
  std::memcpy(&count, length.data(), sizeof count);
  if (count > longest) return {};
  std::string data = take(count);
  if (take(sizeof(std::uint32_t)) != bytes_of(masked_crc(data))) return {};
  return data;
}

/// Step of an event, and whether it is an evaluation's.
using Place = std::pair<std::int64_t, bool>;

std::optional<Place> place_of(const std::string& record) {
  std::optional<Place> place;
  std::int64_t step = 0;
  try {
    for (protozero::pbf_message<Event> event(record); event.next();) {
      if (event.tag() == Event::step) {
        step = event.get_int64();
      } else if (event.tag() == Event::summary) {
        for (protozero::pbf_message<Summary> summary(event.get_message()); summary.next(Summary::value);) {
          protozero::pbf_message<Value> value(summary.get_message());
          if (value.next(Value::tag)) place = {0, value.get_string().starts_with("val/")};
        }
      } else {
        event.skip();
      }
    }
  } catch (const protozero::exception&) {
    return {};
  }
  if (place) place->first = step;
  return place;
}

std::vector<fs::path> event_files(const fs::path& run) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::directory_iterator entry(run, failed); !failed && entry != fs::directory_iterator(); entry.increment(failed))
    if (entry->path().filename().string().starts_with(prefix)) files.push_back(entry->path());
  std::ranges::sort(files);
  return files;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// As TensorBoard expects it: files of one folder are read in the order of their names.
std::string file_name() {
  const std::string host = host_name();
  return fmt::format("{}{:010}.{}.{}", prefix, static_cast<std::int64_t>(seconds_since_1970()),
                     host.empty() ? "host" : host, ::getpid());
}

std::string record_of(std::int64_t step, auto&& fill) {
  std::string record;
  protozero::pbf_builder<Event> event(record);
  event.add_double(Event::wall_time, seconds_since_1970());
  event.add_int64(Event::step, step);
  fill(event);
  return record;
}

}  // namespace

EventLog::EventLog(const fs::path& run) : path_(run / file_name()) {
  std::set<Place> kept;
  read_metrics(run, [&](const ordered_json& line) { kept.emplace(line["step"], line.contains("val_loss")); });
  const std::vector<fs::path> before = event_files(run);
  std::vector<std::string> records;
  for (const fs::path& file : before) {
    std::ifstream stream(file, std::ios::binary);
    while (std::optional<std::string> record = read_record(stream))
      if (const std::optional<Place> place = place_of(*record);
          place && kept.erase(*place) > 0)  // once: a killed process may leave two files
        records.push_back(std::move(*record));
  }
  stream_.open(path_, std::ios::binary | std::ios::trunc);
  if (!stream_) reject("cannot create {}", path_.string());
  write_record(record_of(0, [](auto& event) { event.add_string(Event::file_version, "brain.Event:2"); }));
  // A TensorBoard that has read the former file forgets it.
  write_record(record_of(0, [](auto& event) {
    protozero::pbf_builder<SessionLog> session(event, Event::session_log);
    session.add_enum(SessionLog::status, session_start);
  }));
  for (const std::string& record : records) write_record(record);
  std::error_code failed;
  for (const fs::path& file : before)
    if (file != path_ && !fs::remove(file, failed) && failed)
      reject("cannot remove {}: {}", file.string(), failed.message());
}

void EventLog::remove_all(const fs::path& run) {
  std::error_code failed;
  for (const fs::path& file : event_files(run))
    if (fs::remove(file, failed); failed) reject("cannot remove {}: {}", file.string(), failed.message());
}

void EventLog::write(const ordered_json& line) {
  constexpr double mebibyte = 1 << 20;
  const bool is_evaluation = line.contains("val_loss");
  const std::string section = is_evaluation ? "val/" : "train/";
  write_record(record_of(line["step"], [&](auto& event) {
    protozero::pbf_builder<Summary> summary(event, Event::summary);
    const auto add = [&](const std::string& tag, double number) {
      protozero::pbf_builder<Value> value(summary, Summary::value);
      value.add_string(Value::tag, section + tag);
      value.add_float(Value::simple_value, static_cast<float>(number));
    };
    for (const auto& [key, value] : line.items()) {
      if (!value.is_number() || key == "step") continue;
      const auto number = value.template get<double>();
      if (is_evaluation) {
        if (key.starts_with("val_")) add(key.substr(4), number);
      } else if (key == "memory" || key == "peak") {
        add(key + "_mib", number / mebibyte);
      } else if (key == "seconds") {
        add("samples_per_second", line["samples"].template get<double>() / number);
      } else if (key != "samples" && key != "measuring") {
        add(key, number);
      }
    }
  }));
}

void EventLog::write_record(std::string_view data) {
  const std::string length = bytes_of(std::uint64_t{data.size()});
  stream_ << length << bytes_of(masked_crc(length)) << data << bytes_of(masked_crc(data)) << std::flush;
  if (!stream_) reject("cannot write {}: is the disk full?", path_.string());
}

}  // namespace lacuna::apps
