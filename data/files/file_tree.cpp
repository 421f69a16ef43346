#include "data/files/file_tree.h"

#include "core/error.h"
#include "core/system_error.h"
#include "core/text.h"
#include "data/files/tar.h"
#include "data/text/utf8.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace lacuna {
namespace {

namespace fs = std::filesystem;

bool is_archive(std::string_view name) {
  return name.size() > 4 && std::ranges::equal(name.substr(name.size() - 4), std::string_view(".tar"),
                                               [](unsigned char a, char b) { return std::tolower(a) == b; });
}
std::string_view without_extension(std::string_view name) { return name.substr(0, name.size() - 4); }

/// Names that systems leave behind: of macOS, Windows, and the disks and thumbnails of Linux, Synology and QNAP.
constexpr std::array<std::string_view, 16> service_names{
    "__macosx",   "thumbs.db", "ehthumbs.db", "desktop.ini", "system volume information", "$recycle.bin",
    "lost+found", "@eadir",    "@tmp",        "@recycle",    "@recently-snapshot",        "@__thumb",
    "#recycle",   "#snapshot", "icon\r",      "__pycache__"};

bool is_left_out(std::string_view name) {
  return name.starts_with('.') ||
         std::ranges::find(service_names, std::string_view(lower_case(name))) != service_names.end();
}

/// Whether a path within an archive is skipped.
bool has_part_left_out(std::string_view path) {
  for (;;) {
    const std::size_t end = path.find('/');
    if (is_left_out(path.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
    path.remove_prefix(end + 1);
  }
}

std::string joined(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty()) path += '/';
  return path += name;
}

/// Escapes bytes that are not UTF-8, for example as `\xff`.
std::string escaped(std::string_view name) {
  std::string text;
  while (!name.empty()) {
    const Character character = first_character(name);
    if (character.bytes == 0) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(name.front()));
    text += name.substr(0, character.bytes);
    name.remove_prefix(std::max<std::size_t>(character.bytes, 1));
  }
  return text;
}

constexpr int deepest_archive = 3;  // maximum nesting of archives

}  // namespace

/// Lists the files of a tree in any order and sorts them at the end.
class FileTree::Scan {
 public:
  void add_folder(const fs::path& folder, const std::string& below) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0) reject("{}: cannot be read: {}", folder.native(), last_system_error());
    const std::pair identity{status.st_dev, status.st_ino};
    if (std::ranges::find(above_, identity) != above_.end())
      reject("{}: the folder contains itself: a link in it leads to a folder above it", folder.native());
    above_.push_back(identity);
    std::error_code failed;
    fs::directory_iterator entry(folder, failed);
    for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) add_entry(*entry, below);
    if (failed) reject("{}: cannot be read: {}", folder.native(), failed.message());
    above_.pop_back();
  }

  void add_archive(const fs::path& archive, const std::string& below) {
    const InputFile file(archive);
    const auto number = static_cast<std::int32_t>(tree_->archives_.size());
    tree_->archives_.push_back(archive);
    add_members({file, 0, file.size()}, archive.native(), number, below, 1);
  }

  std::shared_ptr<FileTree> finish(fs::path root) {
    FileTree& tree = *tree_;
    tree.root_ = std::move(root);
    resolve_links();
    std::vector<std::int64_t> order(tree.ends_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::int64_t file) { return tree.path(file); });
    FileTree sorted;
    sorted.paths_.reserve(tree.paths_.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      // The last of several members with the same path counts, as if the archive were unpacked.
      if (i + 1 < order.size() && tree.path(order[i]) == tree.path(order[i + 1])) {
        ++tree.replaced_;
        continue;
      }
      sorted.paths_ += tree.path(order[i]);
      sorted.ends_.push_back(std::ssize(sorted.paths_));
      if (!tree.archives_.empty()) sorted.members_.push_back(members_[static_cast<std::size_t>(order[i])]);
    }
    tree.paths_ = std::move(sorted.paths_);
    tree.ends_ = std::move(sorted.ends_);
    tree.members_ = std::move(sorted.members_);
    tree.folders_.assign(folders_.begin(), folders_.end());
    return std::move(tree_);
  }

 private:
  void add_entry(const fs::directory_entry& entry, const std::string& below) {
    const std::string name = entry.path().filename().native();
    if (is_left_out(name)) return;
    if (find_broken_utf8(name) != std::string::npos)
      reject("{}: expected names in UTF-8, got `{}`: rename it", entry.path().parent_path().native(), escaped(name));
    std::error_code failed;
    // These calls query the system only for links, because a `stat` per file is slow for a million files.
    const bool is_folder = entry.is_directory(failed), is_file = !is_folder && entry.is_regular_file(failed);
    if (!is_folder && !is_file) {
      if (entry.status(failed).type() == fs::file_type::not_found)
        reject("{}: the link leads to nothing", entry.path().native());
      if (failed) reject("{}: cannot be read: {}", entry.path().native(), failed.message());
    }
    const std::string path = joined(below, name);
    if (is_folder) {
      folders_.insert(path);
      add_folder(entry.path(), path);
    } else if (is_file && is_archive(name)) {
      const std::string folder = joined(below, without_extension(name));
      folders_.insert(folder);
      add_archive(entry.path(), folder);
    } else if (is_file) {
      add_file(path, {-1, 0, 0});
    }
  }

  void add_members(const FileRange& range, const std::string& name, std::int32_t archive, const std::string& below,
                   int depth) {
    list_tar(range, name, [&](const TarMember& member) {
      if (has_part_left_out(member.path)) return;
      const std::string path = joined(below, member.path);
      if (member.is_folder) {
        folders_.insert(path);
      } else if (is_archive(path) && member.link_to.empty()) {
        if (depth == deepest_archive) reject("{}: {}: an archive in an archive in an archive", name, member.path);
        const std::string folder(without_extension(path));
        folders_.insert(folder);
        add_parents(folder, below);
        add_members({range.file, member.offset, member.bytes}, fmt::format("{}: {}", name, member.path), archive,
                    folder, depth + 1);
      } else {
        add_parents(path, below);
        if (!member.link_to.empty()) links_.emplace_back(tree_->size(), joined(below, member.link_to));
        add_file(path, {archive, member.offset, member.bytes});
      }
    });
  }

  /// Adds the parent folders of a file, which archives need not list.
  void add_parents(std::string_view path, std::string_view below) {
    for (std::size_t end = path.rfind('/'); end != std::string_view::npos && end > below.size();
         end = path.rfind('/', end - 1))
      if (!folders_.insert(std::string(path.substr(0, end))).second) return;
  }

  void add_file(std::string_view path, const Member& member) {
    tree_->paths_ += path;
    tree_->ends_.push_back(std::ssize(tree_->paths_));
    members_.push_back(member);
  }

  void resolve_links() {
    if (links_.empty()) return;
    std::map<std::string_view, std::int64_t, std::less<>> files;
    for (std::int64_t file = 0; file < tree_->size(); ++file) files.insert_or_assign(tree_->path(file), file);
    for (const auto& [file, target] : links_) {  // in archive order, so that a link's target is already resolved
      const auto found = files.find(target);
      if (found == files.end() || found->second >= file)
        reject("{}: a link to `{}`, which is not before it in the archive", tree_->path(file), target);
      members_[static_cast<std::size_t>(file)] = members_[static_cast<std::size_t>(found->second)];
    }
  }

  std::shared_ptr<FileTree> tree_ = std::make_shared<FileTree>();
  std::vector<Member> members_;
  std::set<std::string> folders_;
  std::vector<std::pair<std::int64_t, std::string>> links_;  // file and its link target
  std::vector<std::pair<dev_t, ino_t>> above_;               // the folders being listed, to detect cycles
};

std::shared_ptr<const FileTree> FileTree::open(const fs::path& root) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(root, failed).lexically_normal();
  Scan scan;
  if (fs::is_directory(absolute, failed))
    scan.add_folder(absolute, {});
  else
    scan.add_archive(absolute, {});
  return scan.finish(absolute);
}

std::shared_ptr<const FileTree> FileTree::of_archives(const std::vector<fs::path>& archives) {
  Scan scan;
  std::set<std::string> names;
  for (const fs::path& archive : archives) {
    std::string name = archive.filename().native();
    if (is_archive(name)) name = without_extension(name);
    if (!names.insert(name).second) reject("{}: expected archives with different names", archive.native());
    scan.add_archive(archive, name);
  }
  return scan.finish({});
}

std::string_view FileTree::path(std::int64_t file) const {
  const auto i = static_cast<std::size_t>(file);
  const auto begin = i == 0 ? 0 : static_cast<std::size_t>(ends_[i - 1]);
  return std::string_view(paths_).substr(begin, static_cast<std::size_t>(ends_[i]) - begin);
}

std::pair<std::int64_t, std::int64_t> FileTree::below(std::string_view folder) const {
  if (folder.empty()) return {0, size()};
  const auto first_from = [&](const std::string& least) {
    std::int64_t low = 0, high = size();
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      (path(middle) < least ? low : high) = path(middle) < least ? middle + 1 : middle;
    }
    return low;
  };
  const std::string from = std::string(folder) + '/', behind = std::string(folder) + static_cast<char>('/' + 1);
  return {first_from(from), first_from(behind)};
}

std::int64_t FileTree::find(std::string_view wanted) const {
  std::int64_t low = 0, high = size();
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (path(middle) < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low < size() && path(low) == wanted ? low : -1;
}

std::string FileTree::origin(std::int64_t file) const {
  const std::int32_t archive = members_.empty() ? -1 : members_[static_cast<std::size_t>(file)].archive;
  if (archive < 0) return (root_ / path(file)).native();
  const fs::path& name = archives_[static_cast<std::size_t>(archive)];
  return fmt::format("{}: {}", name.native(), path(file));
}

FileTree::Place FileTree::place_of(std::int64_t file) const {
  const Member on_disk{-1, 0, 0};
  const Member& member = members_.empty() ? on_disk : members_[static_cast<std::size_t>(file)];
  InputFile input(member.archive < 0 ? root_ / path(file) : archives_[static_cast<std::size_t>(member.archive)]);
  const std::int64_t bytes = member.archive < 0 ? input.size() : member.bytes;
  return {std::move(input), member.offset, bytes};
}

void FileTree::read(std::int64_t file, const std::function<std::span<std::uint8_t>(std::int64_t)>& place) const {
  const Place at = place_of(file);
  at.file.read(at.offset, place(at.bytes));
}

std::span<std::uint8_t> FileTree::read_begin(std::int64_t file, std::span<std::uint8_t> out) const {
  const Place at = place_of(file);
  out = out.first(std::min(out.size(), static_cast<std::size_t>(at.bytes)));
  at.file.read(at.offset, out);
  return out;
}

bool FileTree::has_bytes(std::int64_t file, std::string_view bytes) const {
  constexpr std::int64_t part = 1 << 20;
  const Place at = place_of(file);
  std::string text;  // the end of the last part, in which `bytes` may begin, and the next part
  for (std::int64_t read = 0; read < at.bytes;) {
    text.erase(0, text.size() - std::min(text.size(), bytes.size() - 1));
    const std::size_t kept = text.size();
    text.resize(kept + static_cast<std::size_t>(std::min(part, at.bytes - read)));
    const std::span next(reinterpret_cast<std::uint8_t*>(text.data()) + kept, text.size() - kept);
    at.file.read(at.offset + read, next);
    if (text.find(bytes) != text.npos) return true;
    read += std::ssize(next);
  }
  return false;
}

std::string FileTree::read_text(std::int64_t file, std::int64_t most) const {
  std::string text;
  read(file, [&](std::int64_t bytes) {
    if (bytes > most) reject("{}: expected a text of {} bytes at most, got {}", origin(file), most, bytes);
    text.resize(static_cast<std::size_t>(bytes));
    return std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size());
  });
  return text;
}

}  // namespace lacuna
