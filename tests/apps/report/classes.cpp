// The report page's class figures, and the sheet of training samples.
#include "tests/apps/report/page.h"

using namespace lacuna::test;

TEST_CASE("report: confusion matrix, pictures of the worst samples and other figures, once a run is evaluated") {
  const TemporaryFolder folder(std::string(plain_vit) + "output: {dir: r}\n");
  lacuna::test::run(folder, {"train", "-c", "c.yaml"});
  const CommandResult evaluated = lacuna::test::run(folder, {"eval", "r", "--json", "-"});
  const nlohmann::json figures = evaluated.json().at("classes");
  const nlohmann::json kept = read_json(folder / "r/classes.json");
  CHECK(kept.at("classes").at("confusion") == figures.at("confusion"));
  CHECK(kept.at("samples") == 10);
  for (const nlohmann::json& worst : kept.at("classes").at("worst"))
    CHECK(worst.at("image").get<std::string>().starts_with("data:image/png;base64,"));
  nlohmann::json with_others = kept;
  with_others["tenths"] = {{"mean", 0.5}, {"rows", {{{"from", 0.1}, {"samples", 3}}, {{"from", 0.2}, {"samples", 7}}}}};
  write_file(folder / "r/classes.json", with_others.dump());
  lacuna::test::run(folder, {"report", "r"});
  const nlohmann::json told =
      evaluate(folder, "r/report.html",
               "return [document.querySelectorAll('.confusion tbody tr').length, "
               "document.querySelectorAll('.worst img').length, "
               "[...document.querySelectorAll('.worst img')].every(i => i.naturalWidth === 8), "
               "[...document.querySelectorAll('section.tenths td')].map(cell => cell.textContent), "
               "document.querySelector('section.tenths p').textContent.includes('mean 50.0 %')];");
  if (told.is_null()) return;
  CHECK(told.at(0) == 10);
  CHECK(told.at(1) == figures.at("worst").size());
  CHECK(told.at(2) == true);
  CHECK(told.at(3) == nlohmann::json{"0.100", "3", "0.200", "7"});
  CHECK(told.at(4) == true);
}

TEST_CASE("report: a sheet of training samples") {
  const TemporaryFolder folder(plain_vit);
  lacuna::test::run(folder, {"report", "--data", "c.yaml", "data.mixup=0.5", "-o", "s.html"});
  const nlohmann::json told =
      evaluate(folder, "s.html",
               "return [...document.querySelectorAll('figure')].map(f => f.querySelector('img').naturalWidth);");
  if (!told.is_null()) CHECK(told == nlohmann::json(std::vector<int>(16, 8)));
  CHECK(run_command(folder, {"report"}).code == 2);
  CHECK(run_command(folder, {"report", "--data", "absent.yaml"}).code == 2);
}
