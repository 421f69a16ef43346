#include "autograd/tape.h"
#include "core/error.h"
#include "models/folders/folder.h"
#include "models/io/weights.h"
#include "models/task.h"
#include "nn/init.h"
#include "tests/models/tiny_models.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

using test::TemporaryFolder;

constexpr std::int64_t samples = 3, classes = 5;

std::unique_ptr<Model> tiny(std::string_view family, std::uint64_t seed) {
  return build_model(family, test::tiny_vit().hyper_parameters, {.seed = seed});
}

/// A folder with the weights of a teacher.
struct Teacher {
  TemporaryFolder folder;
  std::unique_ptr<Model> model =
      build_model("resnet20", {{"image_size", std::int64_t{16}}, {"num_classes", classes}}, {.seed = 7});
  Teacher() {
    for (Parameter* const parameter : model->parameters())
      if (parameter->path() == "fc.weight") init::normal(1)(parameter->tensor(), {3, 0, 5});
    save_weights(*model, folder / "model.safetensors");
    model->set_training(false);
  }
  std::unique_ptr<Task> task(const Model& student, OptionValues settings = {}) const {
    settings["teacher"] = std::string("resnet20");
    settings["teacher_from"] = (folder / "").string();
    return make_task("distillation", settings, student);
  }
};

Batch batch() {
  const Tensor images = Tensor::empty({samples, 16, 16, 3}, DType::f32, Device::cpu);
  init::normal(1)(images, {9, 0, 9});
  return {{"images", images}, {"labels", Tensor::from(std::vector<std::int64_t>{4, 0, 2}, {samples})}};
}

using Rows = std::vector<std::vector<double>>;

/// log softmax(logits / τ) of each row.
Rows log_probabilities(const Tensor& logits, double temperature = 1) {
  const std::vector<double> values = logits.to_vector();
  Rows rows;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto begin = values.begin() + i * classes;
    std::vector<double> row(begin, begin + classes);
    double sum = 0;
    for (double& value : row) sum += std::exp(value /= temperature);
    for (double& value : row) value -= std::log(sum);
    rows.push_back(row);
  }
  return rows;
}
double cross_entropy(const Rows& logs, const std::vector<std::int64_t>& labels) {
  double sum = 0;
  for (std::size_t i = 0; i < logs.size(); ++i) sum -= logs[i][static_cast<std::size_t>(labels[i])];
  return sum / static_cast<double>(logs.size());
}
double divergence(const Rows& teacher, const Rows& student) {
  double sum = 0;
  for (std::size_t i = 0; i < teacher.size(); ++i)
    for (std::size_t c = 0; c < teacher[i].size(); ++c)
      sum += std::exp(teacher[i][c]) * (teacher[i][c] - student[i][c]);
  return sum;
}

}  // namespace

TEST_CASE("distillation: both forms and both conventions of the loss, by hand") {
  const Teacher teacher;
  const std::unique_ptr<Model> student = tiny("deit_distilled", 2);
  Outputs outputs = student->forward(batch());
  const Rows own = log_probabilities(outputs.at("logits_class").tensor());
  const double base = cross_entropy(own, {4, 0, 2});
  const Tensor taught = teacher.model->forward(batch()).take("logits").tensor();
  const auto loss = [&](OptionValues settings) {
    return teacher.task(*student, std::move(settings))->run(*student, batch(), TaskMode::train).loss.tensor().item();
  };
  const Tensor& distilled = outputs.at("logits_distilled").tensor();

  std::vector<std::int64_t> best;
  for (const std::vector<double>& row : log_probabilities(taught))
    best.push_back(std::max_element(row.begin(), row.end()) - row.begin());
  const double hard = cross_entropy(log_probabilities(distilled), best);
  CHECK(loss({{"hard", true}}) == doctest::Approx(0.5 * base + 0.5 * hard).epsilon(1e-5));

  const double kl = divergence(log_probabilities(taught, 3), log_probabilities(distilled, 3));
  // DeiT's: τ²/(N·C), α = 0.1. timm's: τ²/N, weights 1 and 1.
  CHECK(loss({{"temperature", 3.0}, {"base_weight", 0.9}, {"distill_weight", 0.1}}) ==
        doctest::Approx(0.9 * base + 0.1 * 9 * kl / (samples * classes)).epsilon(1e-5));
  CHECK(loss({{"temperature", 3.0}, {"per_class", false}, {"base_weight", 1.0}, {"distill_weight", 1.0}}) ==
        doctest::Approx(base + 9 * kl / samples).epsilon(1e-5));
}

TEST_CASE("distillation: a teacher of another normalisation sees the images as its own") {
  const Teacher teacher;
  const std::vector<double> mean{0.5, 0.4, 0.3}, std{0.2, 0.25, 0.5};            // of the batch
  const std::vector<double> its_mean{0.1, 0.6, 0.45}, its_std{0.4, 0.5, 0.125};  // of the teacher
  write_texts(teacher.folder / "",
              files_beside_weights(*teacher.model,
                                   {.model = "resnet20",
                                    .hyper_parameters = {{"image_size", std::int64_t{16}}, {"num_classes", classes}},
                                    .images = {.mean = its_mean, .std = its_std}}));
  const std::unique_ptr<Model> student = tiny("deit_distilled", 2);
  const std::unique_ptr<Task> task =
      teacher.task(*student, {{"per_class", false}, {"base_weight", 0.0}, {"distill_weight", 1.0}});
  task->see({.name = {}, .mean = {0.5F, 0.4F, 0.3F}, .deviation = {0.2F, 0.25F, 0.5F}});

  Batch for_teacher = batch();  // a pixel is value · std + mean
  float* const values = for_teacher.at("images").data<float>();
  for (std::int64_t i = 0; i < for_teacher.at("images").count(); ++i) {
    const auto c = static_cast<std::size_t>(i % 3);
    values[i] = static_cast<float>((values[i] * std[c] + mean[c] - its_mean[c]) / its_std[c]);
  }
  const Tensor taught = teacher.model->forward(std::move(for_teacher)).take("logits").tensor();
  const Tensor distilled = student->forward(batch()).take("logits_distilled").tensor();
  const double kl = divergence(log_probabilities(taught), log_probabilities(distilled));
  CHECK(task->run(*student, batch(), TaskMode::train).loss.tensor().item() ==
        doctest::Approx(kl / samples).epsilon(1e-4));
}

TEST_CASE("distillation: evaluation reads the mean of the heads and no teacher") {
  const Teacher teacher;
  const std::unique_ptr<Model> student = tiny("deit_distilled", 2);
  student->set_training(false);
  Outputs outputs = student->forward(batch());
  const std::vector<double> one = outputs.at("logits_class").tensor().to_vector(),
                            other = outputs.at("logits_distilled").tensor().to_vector(),
                            mean = outputs.at("logits").tensor().to_vector();
  for (std::size_t i = 0; i < mean.size(); ++i) CHECK(mean[i] == doctest::Approx((one[i] + other[i]) / 2));
  const double loss = teacher.task(*student)->run(*student, batch(), TaskMode::evaluate).loss.tensor().item();
  CHECK(loss == doctest::Approx(cross_entropy(log_probabilities(outputs.at("logits").tensor()), {4, 0, 2})));
}

TEST_CASE("distillation: the teacher adds no saved bytes, and a student of one head learns from both") {
  const Teacher teacher;
  for (const char* const family : {"vit", "deit_distilled"}) {
    INFO(family);
    const std::unique_ptr<Model> student = tiny(family, 2);
    const auto saved = [&](const Task& task) {
      const std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
      Tape tape(*policy);
      const Recording recording(tape);
      const TaskResult result = task.run(*student, batch(), TaskMode::train);
      tape.backward(result.loss);
      return tape.saved_bytes();
    };
    const std::int64_t plain = saved(*make_task("classification", {}, *student));
    CHECK(plain > 0);
    CHECK(saved(*teacher.task(*student)) - plain < 4 * 1024);  // logits and the teacher's probabilities
    for (const Parameter* const parameter : student->parameters()) CHECK(parameter->grad().defined());
  }
}

TEST_CASE("distillation: weights of the teacher are read where training starts, on meta too") {
  const OptionValues settings{{"teacher", std::string("resnet20")}, {"teacher_from", std::string("/nowhere/w")}};
  const std::unique_ptr<Model> student = tiny("vit", 2);
  const std::unique_ptr<Task> task = make_task("distillation", settings, *student);
  task->run(*student, batch(), TaskMode::evaluate);
  CHECK_THROWS_WITH_AS(task->run(*student, batch(), TaskMode::train), doctest::Contains("/nowhere/w"), Error);
  const std::unique_ptr<Model> planned =
      build_model("vit", test::tiny_vit().hyper_parameters, {.device = Device::meta});
  const Batch shapes{{"images", Tensor::empty({samples, 16, 16, 3}, DType::f32, Device::meta)},
                     {"labels", Tensor::empty({samples}, DType::i64, Device::meta)}};
  CHECK_THROWS_WITH_AS(make_task("distillation", settings, *planned)->run(*planned, shapes, TaskMode::train),
                       doctest::Contains("/nowhere/w"), Error);
}

TEST_CASE("distillation: a teacher of other classes than the student's is named as such") {
  const Teacher teacher;
  std::vector<HyperParameter> more = test::tiny_vit().hyper_parameters;
  std::erase_if(more, [](const HyperParameter& one) { return one.key == "num_classes"; });
  more.push_back({"num_classes", classes + 2});
  const std::unique_ptr<Model> student = build_model("vit", more, {.seed = 2});
  try {
    teacher.task(*student)->run(*student, batch(), TaskMode::train);
    FAIL("a teacher of other classes is taken");
  } catch (const Error& error) {
    const std::string what = error.what();
    test::check_says(what, "teacher");
    test::check_says(what, std::to_string(classes + 2));
    CHECK(what.find("num_classes") == std::string::npos);  // what the teacher's file has does not set the student's
  }
}

TEST_CASE("distillation: a teacher's classes are joined to the data's by name") {
  const Teacher teacher;
  test::write_file(teacher.folder / "config.json",
                   R"({"architecture": "resnet20", "num_classes": 5, "label_names": ["a", "b", "c", "d", "e"],
                       "pretrained_cfg": {"input_size": [3, 16, 16]}})");
  const std::unique_ptr<Model> student = tiny("vit", 2);
  const auto loss = [&](const std::vector<std::string>& names) {
    const std::unique_ptr<Task> task =
        teacher.task(*student, {{"hard", true}, {"base_weight", 0.0}, {"distill_weight", 1.0}});
    DatasetInfo data{.name = "pictures"};
    data.classes = names;
    task->see(data);
    return task->run(*student, batch(), TaskMode::train).loss.tensor().item();
  };
  const Rows own = log_probabilities(student->forward(batch()).take("logits").tensor());
  std::vector<std::int64_t> best, reversed;
  for (const std::vector<double>& row : log_probabilities(teacher.model->forward(batch()).take("logits").tensor())) {
    best.push_back(std::max_element(row.begin(), row.end()) - row.begin());
    reversed.push_back(classes - 1 - best.back());
  }
  CHECK(loss({"a", "b", "c", "d", "e"}) == doctest::Approx(cross_entropy(own, best)).epsilon(1e-5));
  CHECK(loss({"E", "d", "c", "b", "a"}) == doctest::Approx(cross_entropy(own, reversed)).epsilon(1e-5));
  CHECK_THROWS_WITH_AS(loss({"a", "b", "c", "d", "x"}), doctest::Contains("x"), Error);
}

TEST_CASE("distillation: a teacher without name or weights is refused") {
  const std::unique_ptr<Model> student = tiny("vit", 2);
  CHECK_THROWS_WITH_AS(
      make_task("distillation", {{"teacher", std::string("resnet21")}, {"teacher_from", std::string("w")}}, *student),
      doctest::Contains("resnet21"), Error);
  CHECK_THROWS_WITH_AS(make_task("distillation", {}, *student), doctest::Contains("teacher"), Error);
  CHECK_THROWS_WITH_AS(make_task("distillation", {{"teacher", std::string("vit_tiny_patch16_224")}}, *student),
                       doctest::Contains("teacher_from"), Error);
}

}  // namespace lacuna
