// Damaged and malicious files: each is read correctly or refused with an Error that names it.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "gradus/core/core.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/folder/checkpoint.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/models/gpt.h"
#include "gradus/nn/layers.h"
#include "gradus/optim/optim.h"
#include "tests/support/damaged_files.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temporary_folder.h"

namespace hostile_files_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

bool same(const NamedTensors& a, const NamedTensors& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const Tensor &x = a[i].second, &y = b[i].second;
    if (a[i].first != b[i].first || x.shape() != y.shape() || x.dtype() != y.dtype() ||
        x.to_vector<double>() != y.to_vector<double>())
      return false;
  }
  return true;
}

const models::GPTConfig tiny{.vocab = 3, .context = 2, .layers = 1, .heads = 1, .dim = 2};

/// JSON that nests a million levels deep.
std::string deep(const char* open, const char* close) {
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += open;
  text += '1';
  for (int i = 0; i < 1'000'000; ++i) text += close;
  return text;
}

/// JSON values that are wrong in place of config.json's `value`; `positive`: it must be positive.
std::vector<std::string> wrong_values(const json& value, bool positive, const std::string& huge) {
  std::vector<std::string> others{"null",
                                  "[]",
                                  "{}",
                                  "[[1]]",
                                  "-1",
                                  "1e308",
                                  "-1e308",
                                  "18446744073709551615",
                                  "\"\"",
                                  "\"x\"",
                                  "\"1\"",
                                  "1" + huge,
                                  huge,
                                  "-" + huge,
                                  '"' + huge + '"',
                                  '[' + huge + ']'};
  if (!value.is_boolean()) others.insert(others.end(), {"true"});
  if (value.is_number_integer()) others.insert(others.end(), {"2.5", "1.0", "9223372036854775808"});
  if (value.is_number_integer() && positive) others.push_back("0");
  if (value.is_boolean()) others.insert(others.end(), {"0", "1"});
  return others;
}

}  // namespace

TEST_CASE("hostile files: any damage to a safetensors file is detected", "[hostile]") {
  TemporaryFolder folder;
  const std::string path = folder / "x";
  const NamedTensors tensors{{"a", tensor({{1, -2, 3}})}, {"b", eye(2, boolean)}, {"c", scalar(1)}};
  const std::map<std::string, std::string> metadata{{"step", "12"}, {"X", ":"}};
  save_safetensors(path, tensors, metadata);
  const NamedTensors right = load_safetensors(path).tensors;
  REQUIRE(right.size() == 3);
  CHECK(count_taken(path, [&] {
          const SafetensorsFile file = load_safetensors(path);
          if (!same(file.tensors, right) || file.metadata != metadata)
            FAIL_CHECK("a damaged file was read as another");
        }) == 0);
}

TEST_CASE("hostile files: any damage to a checkpoint is detected", "[hostile]") {
  TemporaryFolder folder;
  const std::string path = folder / "checkpoint";
  nn::Linear model(2, 1);
  optim::AdamW optimizer(model.parameters());
  model(ones({1, 2})).backward();
  optimizer.step();
  const std::map<std::string, std::string> metadata{{"step", "7"}, {"options", "{\"lr\":0.5}"}};
  models::save_checkpoint(path, model, optimizer, metadata);
  const RandomKey random = default_generator().state();
  auto state = [](const nn::Linear& m, const optim::AdamW& o) {
    NamedTensors all;
    for (const auto& [name, t] : m.state_dict()) all.emplace_back(name, t.clone());
    for (const auto& [name, t] : o.state_dict()) all.emplace_back(name, t.clone());
    return all;
  };
  const NamedTensors right = state(model, optimizer);
  CHECK(count_taken(path, [&] {
          const models::Checkpoint checkpoint(path);
          nn::Linear other(2, 1);
          optim::AdamW other_optimizer(other.parameters());
          checkpoint.restore(other, other_optimizer);
          auto found = checkpoint.metadata();
          found.erase("random");
          const RandomKey now = default_generator().state();
          if (!same(state(other, other_optimizer), right) || found != metadata ||
              now.seed != random.seed || now.counter != random.counter)
            FAIL_CHECK("a damaged checkpoint was read as another");
        }) == 0);
}

TEST_CASE("hostile files: a damaged config.json is refused or is a valid one", "[hostile]") {
  TemporaryFolder folder;
  const models::GPT model(tiny);
  models::save_model(folder.path.string(), model);
  const int count = count_taken(folder / "config.json", [&] {
    models::GPTConfig c;
    try {
      c = models::load_model<models::GPT>(folder.path.string()).config;
    } catch (const Error& e) {  // wrong sizes show up only when the weights are loaded
      const std::string message = e.what();
      if (message.find(folder / "model.safetensors") == std::string::npos) throw;
      fail(folder / "config.json", ": ", message);
    }
    if (c.vocab != 3 || c.context != 2 || c.layers != 1 || c.dim != 2 || 2 % c.heads != 0 ||
        c.bias || !c.tie || c.dropout < 0 || c.dropout >= 1)
      FAIL_CHECK("a damaged configuration was taken");
  });
  CHECK(count > 0);  // valid damage, such as "heads": 2 or dropout 0.2
}

TEST_CASE("hostile files: any damage to a GPT's weights is detected", "[hostile]") {
  TemporaryFolder folder;
  const models::GPT model({.vocab = 2, .context = 1, .layers = 1, .heads = 1, .dim = 1});
  models::save_model(folder.path.string(), model);
  CHECK(count_taken(
            folder / "model.safetensors",
            [&] { models::load_model<models::GPT>(folder.path.string()); }, 5) == 0);
}

TEST_CASE("hostile files: a damaged tokenizer.json is refused or is a valid one", "[hostile]") {
  TemporaryFolder folder;
  const std::string path = folder / "tokenizer.json";
  models::CharTokenizer("a\"\\\n\t \xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e").save(path);
  CHECK(count_taken(path, [&] {
          const models::CharTokenizer tokenizer = models::CharTokenizer::load(path);
          std::vector<int64_t> ids;
          for (int64_t i = 0; i < tokenizer.vocab_size(); ++i) ids.push_back(i);
          if (ids.empty() || tokenizer.encode(tokenizer.decode(ids)) != ids)
            FAIL_CHECK("a damaged vocabulary was taken");
        }) > 0);
}

TEST_CASE("hostile files: config.json with a missing key or a value of another type", "[hostile]") {
  TemporaryFolder folder;
  const std::string path = folder / "config.json";
  models::save_model(folder.path.string(), models::GPT(tiny));
  const std::string text = read_file(path);
  const json good = json::parse(text);
  models::GPTConfig config;
  const models::Fields fields = models::GPT::fields(config);
  auto refuses = [&](const std::string& key, const std::string& bytes) {
    CAPTURE(key, bytes.substr(0, 300));
    overwrite(path, bytes);
    std::string message;
    CHECK_FALSE(taken(path, [&] {
      try {
        models::load_model<models::GPT>(folder.path.string());
      } catch (const Error& e) {
        message = e.what();
        throw;
      }
    }));
    CHECK_THAT(message, Catch::StartsWith(path + ": ") && Contains(key));
  };
  const std::string huge(100'000, '9');
  for (const auto& [key, value] : good.items()) {
    json without = good;
    without.erase(key);
    const models::Field* field = fields.find(key);
    if (!field || !field->optional) refuses(key, without.dump());
    for (const std::string& other : wrong_values(value, field && field->least > 0, huge)) {
      json with = good;
      with[key] = "PLACE";
      std::string bytes = with.dump();
      bytes.replace(bytes.find("\"PLACE\""), 7, other);
      // A number too large for a double is refused before its key is known.
      const bool too_large = other.find(huge) != std::string::npos && other.back() == '9';
      refuses(too_large || other[0] == '[' ? "" : key, bytes);
    }
    refuses("number out of range at its byte", "{\"" + key + "\": 1e400, " + good.dump().substr(1));
    refuses("\"" + key + "\" twice", "{\"" + key + "\": 1, " + good.dump().substr(1));
    refuses("not JSON at its byte", "{\"" + key + "\": NaN, " + good.dump().substr(1));
  }
  refuses("expected", "[]");
  refuses("expected", "3");
  refuses("not JSON at its byte", "");
  refuses("not JSON at its byte", text + "x");
  refuses("a zero byte", text + std::string(1, '\0') + "x");
}

TEST_CASE("hostile files: config.json of a model larger than its weights file", "[hostile]") {
  TemporaryFolder folder;
  const std::string path = folder / "config.json";
  models::save_model(folder.path.string(), models::GPT(tiny));
  const json good = json::parse(read_file(path));
  for (const char* key : {"vocab", "context", "layers", "heads", "dim"}) {
    json with = good;
    with[key] = INT64_MAX;
    overwrite(path, with.dump());
    CHECK_THROWS_AS(models::load_model<models::GPT>(folder.path.string()), Error);
  }
}

TEST_CASE("hostile files: JSON nested a million levels deep", "[hostile]") {
  TemporaryFolder folder;
  const std::string path = folder / "config.json", weights = folder / "model.safetensors";
  const std::string tokenizer = folder / "tokenizer.json";
  models::save_model(folder.path.string(), models::GPT(tiny));
  const std::string config = read_file(path);
  auto refused = [](auto&& load, const std::string& file) {
    CHECK_THROWS_WITH(load(), Contains(file) && Contains("nested too deep"));
  };
  for (const std::string& nested : {deep("[", "]"), deep("{\"a\":", "}"), deep("[{\"a\":", "}]"),
                                    std::string(3'000'000, '[')}) {
    CAPTURE(nested.substr(0, 10));
    for (const std::string& text : {nested, "{\"model\": " + nested + "}",
                                    "{\"type\": \"char\", \"vocab\": [" + nested + "]}"}) {
      overwrite(path, text);
      refused([&] { models::load_model<models::GPT>(folder.path.string()); }, path);
      overwrite(tokenizer, text);
      refused([&] { models::CharTokenizer::load(tokenizer); }, tokenizer);
    }
    for (const std::string& header :
         {"{\"x\":" + nested + "}", "{\"__metadata__\":{\"a\":" + nested + "}}",
          "{\"x\":{\"dtype\":\"F32\",\"shape\":" + nested + ",\"data_offsets\":[0,0]}}"}) {
      overwrite(weights, file_of(header, ""));
      refused([&] { load_safetensors(weights); }, weights);
    }
  }
}

TEST_CASE("hostile files: duplicate names, very long names and numbers", "[hostile]") {
  TemporaryFolder folder;
  const std::string path = folder / "file";
  const std::string huge(1'000'000, '9'), letters(1'000'000, 'n');
  for (const std::string& text :
       {std::string(R"({"type":"char","vocab":["a"],"vocab":["b"]})"), "{\"type\":" + huge + "}",
        "{\"type\":\"char\",\"vocab\":[\"" + letters + "\"]}",
        "{\"type\":\"char\",\"vocab\":[[\"" + letters + "\"]]}",
        std::string("{\"type\":\"char\",\"vocab\":[1e300]}"),
        "{\"" + letters + "\":1,\"" + letters + "\":2}"}) {
    CAPTURE(text.substr(0, 100));
    overwrite(path, text);
    CHECK_FALSE(taken(path, [&] { models::CharTokenizer::load(path); }));
  }
  auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return "{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
  };
  const std::string name = '"' + letters + '"';
  for (const std::string& header : {"{" + name + ":1}", "{" + name + ":1," + name + ":1}",
                                    "{" + name + ":" + entry(name, "[1]", "[0,4]") + "}",
                                    "{\"x\":" + entry("\"F32\"", "[" + name + "]", "[0,4]") + "}",
                                    "{\"x\":" + entry("\"F32\"", "[[" + name + "]]", "[0,4]") + "}",
                                    "{\"x\":" + entry("\"F32\"", "[1]", "[0," + huge + "]") + "}",
                                    "{\"x\":" + entry("\"F32\"", "[1]", "[0,1e308]") + "}",
                                    "{\"__metadata__\":{" + name + ":1}}"}) {
    CAPTURE(header.substr(0, 100));
    overwrite(path, file_of(header, "dddd"));
    CHECK_FALSE(taken(path, [&] { load_safetensors(path); }));
  }
}

}  // namespace hostile_files_test
