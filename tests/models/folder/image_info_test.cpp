#include "gradus/models/folder/image_info.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "gradus/core/files/file.h"
#include "tests/support/temporary_folder.h"

namespace image_info_test {

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
  CHECK_THAT(read_file(path), Contains("\"\u00fc\""));  // not escaped
  models::save_image_info(dir, {{{0}, {1}}});
  CHECK(models::load_image_info(dir).class_names.empty());
  for (const models::ImageInfo& bad : {models::ImageInfo{}, models::ImageInfo{{{0, 0}, {1}}}})
    CHECK_THROWS_WITH(models::save_image_info(dir, bad),
                      Contains("save_image_info: expected a mean and a std for each channel"));
  for (const double deviation : {0.0, -1.0, double{NAN}, double{INFINITY}})
    CHECK_THROWS_WITH(models::save_image_info(dir, {{{0, 0}, {1, deviation}}}),
                      Contains("save_image_info: expected finite means and stds above 0, got 0 "));
  for (const double mean : {NAN, -INFINITY})
    CHECK_THROWS_WITH(models::save_image_info(dir, {{{0, mean}, {1, 1}}}),
                      Contains("save_image_info: expected finite means and stds above 0, got "));
  CHECK(models::load_image_info(dir).stats.std == std::vector<double>{1});  // unchanged
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
           {R"({"mean": ["1"], "std": [1], "classes": []})", "mean: expected numbers, got \"1\""},
           {R"({"mean": [1e999], "std": [1], "classes": []})", "number out of range"},
           {R"({"mean": [1], "std": [0], "classes": []})",
            ": expected finite means and stds above 0, got 1 and 0"},
           {R"({"mean": [1], "std": [1], "classes": [], "size": 3})",
            "\"size\" is not a known entry"}}) {
    write_file_atomically(path, text);
    CHECK_THROWS_WITH(models::load_image_info(dir), Contains(path) && Contains(why));
  }
  std::filesystem::remove(path);
  CHECK(models::image_info_path(dir) == path);
  CHECK_THROWS_WITH(models::load_image_info(dir), Contains(path));
}

TEST_CASE("the config.json decides which file holds the image information", "[folder]") {
  const TemporaryFolder folder;
  const std::string dir = folder / "", ours = folder / "images.json",
                    theirs = folder / "preprocessor_config.json";
  models::save_image_info(dir, {{{0}, {1}}, {"a"}});
  write_file_atomically(theirs, "{}");
  for (const char* config : {"", R"({"model": "vit"})"}) {
    if (*config) write_file_atomically(folder / "config.json", config);
    CHECK(models::image_info_path(dir) == ours);
    CHECK(models::class_names_path(dir) == ours);
    CHECK(models::load_image_info(dir).class_names.size() == 1);
  }
  write_file_atomically(folder / "config.json", R"({"model_type": "vit"})");
  CHECK(models::image_info_path(dir) == theirs);
  CHECK(models::class_names_path(dir) == folder / "config.json");
  CHECK_THROWS_WITH(models::load_image_info(dir), Contains(theirs + ": image_mean is missing"));
}

TEST_CASE("preprocessor_config.json: images from 0 to 1, normalised or not", "[folder]") {
  const TemporaryFolder folder;
  const std::string dir = folder / "", path = folder / "preprocessor_config.json";
  const auto load = [&](const std::string& file, const std::string& more = "") {
    write_file_atomically(folder / "config.json", R"({"model_type": "vit")" + more + "}");
    write_file_atomically(path, file);
    return models::load_image_info(dir);
  };
  const std::string stats = R"("image_mean": [0.5], "image_std": [2])";
  const models::ImageInfo normalised = load("{" + stats + "}");
  CHECK(normalised.stats.mean == std::vector<double>{0.5});
  CHECK(normalised.stats.std == std::vector<double>{2});
  CHECK(normalised.class_names == std::vector<std::string>{"LABEL_0", "LABEL_1"});

  const std::string plain = R"({"do_normalize": false})";
  CHECK(load(plain).stats.mean == std::vector<double>{0, 0, 0});
  CHECK(load(plain).stats.std == std::vector<double>{1, 1, 1});
  CHECK(load(plain, R"(, "num_channels": 1)").stats.mean == std::vector<double>{0});
  CHECK(load(plain, R"(, "num_channels": 1)").stats.std == std::vector<double>{1});
  CHECK(load(plain, R"(, "num_channels": 4)").stats.mean == std::vector<double>{0, 0, 0, 0});
  CHECK(load(plain, R"(, "num_channels": 4)").stats.std == std::vector<double>{1, 1, 1, 1});
  CHECK(load(plain, R"(, "num_channels": null)").stats.mean.size() == 3);
  for (const std::string count : {"0", "-1", "2.5", "1000001", "\"4\""})
    CHECK_THROWS_WITH(load(plain, R"(, "num_channels": )" + count),
                      Contains("config.json: num_channels: expected a whole number from 1 to "
                               "1000000, got " +
                               count));

  CHECK_NOTHROW(load(R"({"do_rescale": true, "rescale_factor": 0.00392156863, )" + stats + "}"));
  CHECK_THROWS_WITH(load(R"({"do_rescale": false, )" + stats + "}"),
                    Contains(path + ": do_rescale: expected true, got false"));
  for (const std::string factor : {"1", "0.00392", "\"x\"", "null"})
    CHECK_THROWS_WITH(load(R"({"rescale_factor": )" + factor + ", " + stats + "}"),
                      Contains(path + ": rescale_factor: expected 1/255, got " + factor));
}

}  // namespace image_info_test
