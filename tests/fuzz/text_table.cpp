// Any bytes as a TSV, CSV or JSON-lines file of labelled texts (the first byte says which): it is refused with an
// Error, or every row reads again as it was read.
#include "core/error.h"
#include "data/text/labelled_text.h"
#include "tests/temporary_folder.h"

#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  if (size == 0) return 0;
  static const test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "rows";
  test::write_file(file, std::string_view(reinterpret_cast<const char*>(bytes) + 1, size - 1));
  const auto format = static_cast<TableFormat>(bytes[0] % 3);
  TextColumns columns{.table = {.format = format, .header = bytes[0] % 2 == 0}, .text = "1", .label = "2"};
  if (format == TableFormat::json_lines || columns.table.header) {
    columns.text = "text";
    columns.label = "label";
  }
  try {
    const LabelledTable table = read_labelled_table(file, columns, {});
    const auto rows = static_cast<std::size_t>(table.table->size());
    if (table.labels.size() + table.several.size() + table.numbers.size() != rows) std::abort();
    for (const std::int32_t label : table.labels)
      if (label < 0 || label >= std::ssize(table.classes)) std::abort();
    for (std::int64_t i = 0; i < table.table->size(); ++i)
      if (table.table->row(i).size() != 2) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::input) std::abort();
  }
  return 0;
}
