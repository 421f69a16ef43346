#include "data/segmentation/mask_kinds.h"

#include "core/error.h"
#include "data/labels.h"

#include <set>
#include <sstream>

namespace lacuna {

MaskKind cityscapes_masks() {
  return {.name = "Cityscapes",
          .classes = {"road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign",
                      "vegetation", "terrain", "sky", "person", "rider", "car", "truck", "bus", "train", "motorcycle",
                      "bicycle"},
          .labels = {{7, 0},
                     {8, 1},
                     {11, 2},
                     {12, 3},
                     {13, 4},
                     {17, 5},
                     {19, 6},
                     {20, 7},
                     {21, 8},
                     {22, 9},
                     {23, 10},
                     {24, 11},
                     {25, 12},
                     {26, 13},
                     {27, 14},
                     {28, 15},
                     {31, 16},
                     {32, 17},
                     {33, 18}}};
}

MaskKind voc_masks() {
  return {.name = "VOC",
          .classes = {"background", "aeroplane", "bicycle",     "bird",  "boat",        "bottle", "bus",
                      "car",        "cat",       "chair",       "cow",   "diningtable", "dog",    "horse",
                      "motorbike",  "person",    "pottedplant", "sheep", "sofa",        "train",  "tvmonitor"}};
}

MaskKind ade20k_masks(const std::string& table, const std::string& file) {
  MaskKind kind{.name = "ADE20K", .zero_is_ignored = true};
  std::set<std::string> seen;
  std::istringstream lines(table);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (without_blanks(line).empty() || number == 1) continue;  // names of the columns
    const std::size_t tab = line.rfind('\t');
    if (tab == std::string::npos)
      reject("{}:{}: expected columns with tabs between them, got '{}'", file, number, line);
    const std::string all(without_blanks(std::string_view(line).substr(tab + 1)));
    std::string first(without_blanks(std::string_view(all).substr(0, all.find_first_of(",;"))));
    kind.classes.push_back(seen.insert(first).second ? first : all);  // the first synonym
  }
  return kind;
}

}  // namespace lacuna
