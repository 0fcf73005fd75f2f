#include "gradus/models/folder/image_info.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "gradus/core/files/file.h"
#include "tests/support/temporary_folder.h"

using namespace gradus;
using Catch::Matchers::Contains;

TEST_CASE("images.json: saved and loaded, and refused if damaged", "[folder]") {
  const TemporaryFolder folder;
  const std::string dir = folder / "";
  const std::string path = models::image_info_path(dir);
  const models::ImageInfo info{{{0.1, -1e-7, 1.0 / 3}, {1e-300, 2, 0.1}}, {"a \"b\"\n", "", "ü"}};
  models::save_image_info(dir, info);
  const models::ImageInfo loaded = models::load_image_info(dir);
  CHECK(loaded.stats.mean == info.stats.mean);
  CHECK(loaded.stats.std == info.stats.std);
  CHECK(loaded.class_names == info.class_names);
  models::save_image_info(dir, {{{0}, {1}}});
  CHECK(models::load_image_info(dir).class_names.empty());
  write_file_atomically(folder / "preprocessor_config.json", "{}");
  CHECK(models::image_info_path(dir) == path);

  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "is not JSON"},
           {"[1]", "expected a JSON object, got [1]"},
           {R"({"mean": [1], "std": [1]})", "classes is missing: expected an array"},
           {R"({"mean": [1], "std": [1], "classes": {}})", "classes: expected an array, got {}"},
           {R"({"mean": [1], "std": [1], "classes": [7]})", "classes: expected names, got 7"},
           {R"({"mean": [], "std": [], "classes": []})", "for each channel, got 0 and 0"},
           {R"({"mean": [1, 2], "std": [1], "classes": []})", "got 2 and 1"},
           {R"({"mean": ["1"], "std": [1], "classes": []})",
            "mean: expected finite numbers, got \"1\""},
           {R"({"mean": [1e999], "std": [1], "classes": []})", "number out of range"},
           {R"({"mean": [1], "std": [0], "classes": []})",
            "std: expected finite numbers above 0, got 0"},
           {R"({"mean": [1], "std": [1], "classes": [], "size": 3})",
            "\"size\" is not a known entry"}}) {
    write_file_atomically(path, text);
    CHECK_THROWS_WITH(models::load_image_info(dir), Contains(path) && Contains(why));
  }
  std::filesystem::remove(path);
  CHECK(models::image_info_path(dir) == folder / "preprocessor_config.json");
  std::filesystem::remove(folder / "preprocessor_config.json");
  CHECK_THROWS_WITH(models::load_image_info(dir), Contains(path));
}
