// Average precision and recall of found boxes, as COCO counts them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace lacuna {

/// Left, top, width and height.
using CornerBox = std::array<double, 4>;

struct TrueBox {
  std::int64_t category = 0;
  CornerBox box{};
  double area = 0;       // COCO's annotations have that of the object's outline
  bool crowd = false;    // several objects: any number of found boxes may match it, and count for nothing
  bool ignored = false;  // as VOC's `difficult`: a found box that matches it counts for nothing
};
struct FoundBox {
  std::int64_t category = 0;
  CornerBox box{};
  double score = 0;
};

/// The twelve figures that COCO's evaluation prints: -1 where no box could be found. Means over the thresholds 0.50,
/// 0.55 … 0.95 of the intersection over union, and over classes that have boxes. Small: below 32² of area, large: above
/// 96²; both ends belong to medium too.
struct DetectionFigures {
  double ap = -1, ap_50 = -1, ap_75 = -1, ap_small = -1, ap_medium = -1, ap_large = -1;
  double ar_1 = -1, ar_10 = -1, ar_100 = -1, ar_small = -1, ar_medium = -1, ar_large = -1;  // ar_N: of N boxes an image
  std::map<std::int64_t, double> ap_of_category{};
};

/// Counts images one after another and keeps a few bytes of each found box (COCOeval of pycocotools with `bbox`).
class AveragePrecision {
 public:
  static constexpr int thresholds = 10, sizes = 4, most_of_image = 100;

  /// Adds an image: its true boxes, and those that were found, in any order. The order of images decides which of
  /// equal scores comes first.
  void add(std::span<const TrueBox> truth, std::span<const FoundBox> found);
  DetectionFigures figures() const;

 private:
  /// A found box: bit t of `matched` and `ignored` is of threshold t.
  struct Counted {
    double score;
    int rank;  // within the image's boxes of the category, by score
    std::array<std::uint16_t, sizes> matched, ignored;
  };
  struct Category {
    std::vector<Counted> found;
    std::array<std::int64_t, sizes> wanted{};  // true boxes that count
  };
  /// Precision at 101 recalls for each threshold, and the recall reached; empty where nothing could be found.
  struct Curves {
    std::vector<double> precisions;  // [thresholds, 101]
    std::vector<double> recalls;     // [thresholds]
  };

  static void match(std::span<const TrueBox* const> truth, std::span<const FoundBox* const> found, int size,
                    std::span<Counted> counted);
  static Curves curves(const Category& category, int size, int most);

  std::map<std::int64_t, Category> categories_;
};

}  // namespace lacuna
