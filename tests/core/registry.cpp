#include "core/registry.h"

#include <doctest/doctest.h>

namespace lacuna {

TEST_CASE("the nearest name differs in few letters, or has a similar prefix") {
  const std::vector<std::string> models{"deit_base_patch16_224", "deit_small_patch16_224", "resnet20", "resnet50",
                                        "vit"};
  CHECK(nearest_name("resnet5", models) == "resnet50");
  CHECK(nearest_name("vitt", models) == "vit");
  CHECK(nearest_name("deit", models) == "deit_base_patch16_224");
  CHECK(nearest_name("deit_small", models) == "deit_small_patch16_224");
  CHECK(nearest_name("deit-smal", models) == "deit_small_patch16_224");
  CHECK(nearest_name("deit_small_16", models) == "deit_small_patch16_224");
  CHECK(nearest_name("deit_tiny", {"deit_tiny_distilled_patch16_224", "deit_tiny_patch16_224"}) ==
        "deit_tiny_patch16_224");
  CHECK(nearest_name("resnet5", {"resnet", "resnet50"}) == "resnet50");
  CHECK(nearest_name("alexnet", models).empty());
  CHECK(nearest_name("adamW", {"adam", "adamw"}) == "adamw");
  // Names of other libraries.
  CHECK(nearest_name("gpu", {"auto", "cpu", "cuda", "meta"}) == "cuda");
  CHECK(nearest_name("learning_rate", {"epochs", "lr", "layer_decay"}) == "lr");
  CHECK(nearest_name("batch", {"bits", "batch_size"}) == "batch_size");
  CHECK(nearest_name("bert-base-uncased", {"bert_base", "bert_base_cased"}) == "bert_base");
  CHECK(nearest_name("bert-base-cased", {"bert_base", "bert_base_cased"}) == "bert_base_cased");
  // Too short for a prefix to mean anything.
  CHECK(nearest_name("x", {"epochs", "batch_size"}).empty());
  CHECK(nearest_name("bad", {"batch_size"}).empty());
}

}  // namespace lacuna
