// Programs on Hugging Face's model folders, PyTorch on folders written by gradus, and damaged
// files.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "gradus/core/core.h"
#include "gradus/models/bert.h"
#include "gradus/models/data/chat/chat_template.h"
#include "gradus/models/data/images/png.h"
#include "gradus/models/folder/gguf/gguf.h"
#include "gradus/models/folder/hugging_face/hugging_face.h"
#include "gradus/models/gpt.h"
#include "gradus/models/vit.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"
#include "tests/support/damaged_files.h"
#include "tests/support/paths.h"
#include "tests/support/programs.h"

namespace hugging_face_programs_test {

using Catch::Matchers::Contains;
using namespace gradus;
using nlohmann::json;

namespace {

const std::string folders = gradus::testing::source_path("tests/golden/hugging_face/");

/// The command of a python3 with torch; "" if there is none.
std::string python_with_torch() {
  for (const char* python : {"python3", "/usr/bin/python3"})
    if (std::system((std::string(python) + " -c 'import torch' 2>/dev/null").c_str()) == 0)
      return python;
  return "";
}

/// Checks that both files hold the same tensors.
void check_same_files(const std::string& a, const std::string& b) {
  const NamedTensors x = load_safetensors(a).tensors, y = load_safetensors(b).tensors;
  REQUIRE(x.size() == y.size());
  std::map<std::string, Tensor> named(y.begin(), y.end());
  for (const auto& [name, tensor] : x) {
    CAPTURE(name);
    REQUIRE(named.contains(name));
    CHECK(golden::same(tensor, named.at(name)));
  }
}

}  // namespace

TEST_CASE("Hugging Face: generate, classify and attention_map read its folders",
          "[hugging_face][programs]") {
  TemporaryFolder scratch;
  const Result text =
      run("generate", "--model " + folders + "gpt2 --prompt 'the cat' --tokens 20 --seed 2 " +
                          "--temperature 5 --top-k 0 --stop '<|endoftext|>'");
  CAPTURE(text.output);
  CHECK(text.status == 0);
  CHECK_THAT(text.output, Catch::Matchers::StartsWith("the cat"));

  const std::string picture = scratch / "picture.png";
  models::write_png(
      picture, {.channels = 3, .height = 9, .width = 9, .bytes = std::vector<uint8_t>(3 * 81, 77)});
  const Result said = run("classify", "--model " + folders + "vit " + picture);
  CHECK(said.status == 0);
  CHECK_THAT(said.output, Contains("goldfish, Carassius auratus"));

  for (const char* name : {"gpt2", "bert"}) {
    const Result drawn = run("attention_map", "--model " + folders + name + " --text 'the cat' " +
                                                  "--out " + (scratch / "a.png"));
    CHECK(drawn.status == 0);
  }
}

TEST_CASE("Hugging Face: training starts from its folders", "[hugging_face][programs]") {
  TemporaryFolder scratch;
  const std::string quick = " --steps 2 --eval-every 1 --eval-batches 1 --batch 2 --warmup 1";
  const std::string data = scratch / "text";
  write_file_atomically(data, sample_text());
  const Result trained = run("train_gpt", "--data " + data + " --init-from " + folders +
                                              "gpt2 --out " + (scratch / "gpt") + quick);
  CHECK(trained.status == 0);
  const auto config = models::load_config<models::GPT>(scratch / "gpt");
  CHECK(config.vocab == 304);  // more than the tokenizer's 293
  CHECK(config.activation == Activation::gelu_tanh);
  const Result resumed =
      run("train_gpt", "--data " + data + " --out " + (scratch / "gpt") + " --resume --steps 3");
  CHECK(resumed.status == 0);
  const Result whole = run("train_bert", "--data " + data + " --init-from " + folders +
                                             "bert --out " + (scratch / "bert") + quick);
  CHECK(whole.status == 0);
  CHECK_THAT(whole.output, !Contains("newly initialised"));
  CHECK(models::load_config<models::Bert>(scratch / "bert").hidden == 20);
  // A BERT with another number of segments resumes with it.
  std::filesystem::copy(scratch / "bert", scratch / "three",
                        std::filesystem::copy_options::recursive);
  for (const char* file : {"checkpoint.safetensors", "checkpoint.previous.safetensors"})
    std::filesystem::remove(scratch / "three/" + file);
  models::BertConfig three = models::load_config<models::Bert>(scratch / "bert");
  three.segments = 3;
  models::save_model(scratch / "three", models::Bert(three),
                     models::load_tokenizer(scratch / "bert").get());
  const std::string of_three = "--data " + data + " --out " + (scratch / "three-out");
  CHECK(run("train_bert", of_three + " --init-from " + (scratch / "three") + quick).status == 0);
  CHECK(run("train_bert", of_three + " --resume --steps 3").status == 0);
  CHECK(models::load_config<models::Bert>(scratch / "three-out").segments == 3);

  std::filesystem::copy(folders + "bert", scratch / "single");
  json config_of_one = json::parse(read_file(scratch / "single/config.json"));
  config_of_one["type_vocab_size"] = 1;
  write_file_atomically(scratch / "single/config.json", config_of_one.dump());
  const Result single =
      run("train_bert", "--data " + data + " --init-from " + (scratch / "single") + " --out " +
                            (scratch / "single-out") + quick);
  CHECK(single.status == 1);
  CHECK_THAT(
      single.output,
      Contains("config.json: type_vocab_size: expected at least 2 for pairs of texts, got 1"));
  const Result wrong =
      run("train_gpt", "--init-from " + folders + "vit --out " + (scratch / "none"));
  CHECK(wrong.status == 1);
  CHECK_THAT(wrong.output, Contains("expected a model of kind \"gpt\", got a vit"));
}

TEST_CASE("Hugging Face: training names the heads that a folder lacks; --eval-only needs them",
          "[hugging_face][programs]") {
  TemporaryFolder scratch;
  std::filesystem::copy(folders + "bert", scratch / "bare");
  const std::string weights = scratch / "bare/model.safetensors";
  NamedTensors without;
  for (const auto& named : load_safetensors(weights).tensors)
    if (!named.first.starts_with("cls.")) without.push_back(named);
  save_safetensors(weights, without);
  write_file_atomically(scratch / "text", sample_text());
  const std::string bare = "--data " + (scratch / "text") + " --init-from " + (scratch / "bare") +
                           " --batch 2 --eval-batches 1 --out " + (scratch / "out"),
                    missing = weights + ": the names or shapes differ; missing: cls.";
  const Result judged = run("train_bert", bare + " --eval-only");
  CHECK(judged.status == 1);
  CHECK_THAT(judged.output, Contains(missing) && Contains("cls.seq_relationship.weight"));
  const Result trained = run("train_bert", bare + " --steps 1 --warmup 1");
  CHECK(trained.status == 0);
  CHECK_THAT(trained.output,
             Contains(missing) && Contains("\n  these layers are newly initialised\n"));
}

TEST_CASE("convert: to Hugging Face's format and back gives the same model",
          "[hugging_face][programs]") {
  TemporaryFolder scratch;
  for (const std::string name : {"gpt2", "bert", "vit"}) {
    const std::string ours = scratch / name + "-ours", theirs = scratch / name + "-theirs",
                      again = scratch / name + "-again";
    auto convert = [](const std::string& from, const std::string& to, const char* format) {
      const Result done = run("convert", "--model " + from + " --to " + to + " --format " + format);
      CAPTURE(done.output);
      CHECK(done.status == 0);
    };
    convert(folders + name, ours, "gradus");
    CHECK_FALSE(models::is_hugging_face(ours));
    convert(ours, theirs, "hugging-face");
    CHECK(models::is_hugging_face(theirs));
    convert(theirs, again, "gradus");
    for (const char* file : {"config.json", "model.safetensors"})
      CHECK(read_file(ours + '/' + file) == read_file(again + '/' + file));
    const char* more = name == "vit" ? "/images.json" : "/tokenizer.json";
    CHECK(read_file(ours + more) == read_file(again + more));
    const Result twice = run("convert", "--model " + ours + " --to " + theirs);
    CHECK(twice.status == 1);
    CHECK_THAT(twice.output, Contains("already holds a model's files"));
  }
  const Result nowhere = run("convert", "--model " + folders + "gpt2");
  CHECK(nowhere.status == 1);
  CHECK_THAT(nowhere.output,
             Contains("--to: expected a folder, or a file with --format gguf or onnx"));
}

TEST_CASE("convert: special tokens, names of classes and the chat template are kept",
          "[hugging_face][programs]") {
  const TemporaryFolder scratch;
  const auto there_and_back = [&](const std::string& name) {
    for (const std::string& command :
         {name + " --format gradus --to " + (scratch / "ours-") + name,
          "ours-" + name + " --format hugging-face --to " + (scratch / "back-") + name}) {
      const Result done = run("convert", "--model " + (scratch / "") + command);
      CHECK(done.output.starts_with("wrote "));
      CHECK(done.status == 0);
    }
    return scratch / "back-" + name;
  };
  const auto change = [](const std::string& path, const json& values) {
    json file = std::filesystem::exists(path) ? json::parse(read_file(path)) : json::object();
    file.update(values);
    write_file_atomically(path, file.dump());
  };
  const auto read = [](const std::string& path) { return json::parse(read_file(path)); };

  std::filesystem::copy(folders + "gpt2", scratch / "gpt2");
  const std::string form = "{{ '<|im_start|>' }}\n";
  change(scratch / "gpt2/config.json",
         {{"bos_token_id", 5}, {"eos_token_id", {292, 7}}, {"pad_token_id", 3}});
  change(scratch / "gpt2/tokenizer_config.json", {{"bos_token", {{"content", "<s>"}}},
                                                  {"eos_token", "<|endoftext|>"},
                                                  {"pad_token", "[PAD]"},
                                                  {"chat_template", form}});
  const std::string gpt = there_and_back("gpt2");
  CHECK(models::find_chat_template(scratch / "ours-gpt2",
                                   *models::load_tokenizer(scratch / "ours-gpt2"))
            .name == "chatml");
  const json ids = read(gpt + "/config.json"), names = read(gpt + "/tokenizer_config.json");
  CHECK(ids["bos_token_id"] == 5);
  CHECK(ids["eos_token_id"] == json({292, 7}));
  CHECK(ids["pad_token_id"] == 3);
  CHECK(names["bos_token"] == "<s>");
  CHECK(names["eos_token"] == "<|endoftext|>");
  CHECK(names["pad_token"] == "[PAD]");
  CHECK(names["chat_template"] == form);

  const models::BertClassifier classifier(
      {.bert = {.vocab = 7, .layers = 1, .heads = 1, .dim = 4}, .classes = 2});
  models::save_hugging_face(scratch / "texts", classifier);
  CHECK(models::load_text_info(scratch / "texts") == models::TextInfo());  // LABEL_0, LABEL_1
  change(scratch / "texts/config.json", {{"id2label", {{"0", "bad"}, {"1", "good"}}}});
  const json labels = read(there_and_back("texts") + "/config.json");
  CHECK(labels["id2label"] == json({{"0", "bad"}, {"1", "good"}}));
  CHECK(labels["label2id"] == json({{"bad", 0}, {"good", 1}}));
}

TEST_CASE("convert: no tokenizer is dropped, and no file of another model is kept",
          "[hugging_face][programs]") {
  const TemporaryFolder scratch;
  const auto refused = [](const std::string& model, const std::string& to) {
    const Result result = run("convert", "--model " + model + " --format gradus --to " + to);
    CHECK(result.status == 1);
    return result.output;
  };
  std::filesystem::copy(folders + "gpt2", scratch / "gpt2");
  for (const char* file : {"vocab.json", "merges.txt", "tokenizer_config.json"})
    std::filesystem::remove(scratch / "gpt2/" + file);
  for (const char* file :
       {"tokenizer.model", "spiece.model", "merges.txt", "tokenizer_config.json"}) {
    CAPTURE(file);
    write_file_atomically(scratch / "gpt2/" + file, "{}");
    CHECK_THAT(refused(scratch / "gpt2", scratch / "to"),
               Contains("transformers converts tokenizer.model and spiece.model"));
    std::filesystem::remove(scratch / "gpt2/" + file);
  }
  CHECK_FALSE(scratch.has("to"));
  std::filesystem::create_directory(scratch / "to");
  for (const char* file : {"text.json", "tokenizer.json", "vocab.json", "vocab.txt",
                           "tokenizer_config.json", "added_tokens.json", "chat_template.jinja"}) {
    CAPTURE(file);
    write_file_atomically(scratch / "to/" + file, "{}");
    CHECK_THAT(refused(folders + "gpt2", scratch / "to"),
               Contains("already holds a model's files"));
    std::filesystem::remove(scratch / "to/" + file);
  }
}

TEST_CASE("convert and generate: weights in bfloat16 and int8", "[programs][compression]") {
  TemporaryFolder scratch;
  const std::string type = GENERATE("bfloat16", "int8");
  CAPTURE(type);
  const std::string small = scratch / "small", back = scratch / "back";
  const std::string prompt = " --prompt 'the cat' --tokens 12 --temperature 0";
  auto text = [&](const std::string& flags) {
    const Result result = run("generate", flags + prompt);
    CAPTURE(result.output);
    REQUIRE(result.status == 0);
    return result.output;
  };
  const Result converted = run("convert", "--model " + folders + "gpt2 --to " + small +
                                              " --format gradus --weights " + type);
  REQUIRE(converted.status == 0);
  CHECK(text("--model " + small + " --weights " + type) ==
        text("--model " + folders + "gpt2 --weights " + type));
  if (type == "int8") {
    const Result refused = run("train_gpt", "--init-from " + small + " --out " + (scratch / "run"));
    CHECK(refused.status == 1);
    CHECK_THAT(refused.output, Contains("'wte.weight' is int8, which cannot be trained"));
    write_file_atomically(scratch / "text", sample_text());
    const Result judged =
        run("train_gpt", "--eval-only --eval-batches 1 --data " + (scratch / "text") +
                             " --init-from " + small + " --out " + (scratch / "run"));
    CHECK(judged.status == 0);
    CHECK_THAT(judged.output, Contains(" val_loss "));
  }
  // Hugging Face's format holds the same numbers as float32.
  REQUIRE(run("convert", "--model " + small + " --to " + back + " --format hugging-face").status ==
          0);
  CHECK(text("--model " + back + " --weights " + type) == text("--model " + small));
  const Result refused =
      run("convert", "--model " + small + " --to " + (scratch / "no") + " --weights " + type);
  CHECK(refused.status == 1);
  CHECK_THAT(refused.output, Contains("--weights: bfloat16 and int8 need --format gradus"));
}

TEST_CASE("convert and chat: GGUF files keep the end of a text and the chat template",
          "[programs][gguf]") {
  const TemporaryFolder scratch;
  std::filesystem::copy(folders + "gpt2", scratch / "gpt2");
  const std::string settings = scratch / "gpt2/tokenizer_config.json", file = scratch / "x.gguf",
                    form = "{{ '[INST] ' }}";
  json names = json::parse(read_file(settings));
  names["chat_template"] = form;
  write_file_atomically(settings, names.dump());
  CHECK(run("convert", "--model " + (scratch / "gpt2") + " --format gguf --to " + file).status ==
        0);
  CHECK(run("convert", "--model " + file + " --format gradus --to " + (scratch / "ours")).status ==
        0);
  const models::TextInfo text = models::load_text_info(scratch / "ours");
  CHECK(text.chat_template == form);
  CHECK(text.token_ids.at("eos_token_id") == std::vector<int64_t>{292});
  write_file_atomically(scratch / "questions", "hi\n");
  const Result asked = run("chat", "--model " + file + " < " + (scratch / "questions"));
  CHECK(asked.status == 1);
  CHECK_THAT(asked.output, Contains("the chat template mistral needs a tokenizer"));
}

TEST_CASE("convert and generate: GGUF files", "[programs][gguf]") {
  TemporaryFolder scratch;
  const std::string file = scratch / "x.gguf", back = scratch / "back",
                    prompt = " --prompt 'the cat' --tokens 12 --temperature 0";
  auto output = [&](const char* program, const std::string& flags) {
    const Result result = run(program, flags);
    CAPTURE(result.output);
    CHECK(result.status == 0);
    return result.output;
  };
  auto refused = [&](const std::string& flags) {
    const Result result = run("convert", flags);
    CHECK(result.status == 1);
    return result.output;
  };
  const std::string to_file = "--model " + folders + "gpt2 --format gguf --to " + file;
  output("convert", to_file);
  CHECK(models::is_gguf(file));
  CHECK(output("convert", "--model " + file + " --format gradus --to " + back) ==
        "wrote " + back + '\n');
  const std::string text = output("generate", "--model " + folders + "gpt2" + prompt);
  CHECK(output("generate", "--model " + file + prompt) == text);
  CHECK(output("generate", "--model " + back + prompt) == text);
  output("convert",
         "--model " + folders + "gpt2 --format gguf --to " + (scratch / "new/dir/x.gguf"));
  CHECK(read_file(scratch / "new/dir/x.gguf") == read_file(file));
  output("convert", to_file + ".f16 --type f16");
  CHECK(std::filesystem::file_size(file + ".f16") < std::filesystem::file_size(file));
  CHECK_THAT(refused(to_file), Contains(file + " already exists"));
  CHECK_THAT(refused("--model " + file + " --to x --type f16"), Contains("--type needs --format"));
  CHECK_THAT(refused("--model " + folders + "vit --format gguf --to " + (scratch / "v")),
             Contains("--format gguf: expected a gpt, got \"vit\""));
  CHECK_THAT(refused(to_file + "2 --weights int8"), Contains("need --format gradus"));
}

TEST_CASE("Hugging Face: PyTorch reads what gradus wrote, and weights.py moves weights",
          "[hugging_face][python]") {
  const std::string python = python_with_torch();
  if (python.empty()) {
    WARN("no python3 with torch here: not checked");
    return;
  }
  TemporaryFolder scratch;
  auto succeeds = [&](const std::string& arguments) {
    CAPTURE(arguments);
    CHECK(std::system((python + ' ' + arguments + " >/dev/null").c_str()) == 0);
  };
  const std::string check =
      gradus::testing::source_path("tests/golden/scripts/check_hugging_face.py ");
  models::save_hugging_face(scratch / "gpt2", models::load_model<models::GPT>(folders + "gpt2"));
  models::save_hugging_face(scratch / "bert", models::load_model<models::Bert>(folders + "bert"));
  models::save_hugging_face(scratch / "vit", models::load_model<models::ViT>(folders + "vit"));
  for (const std::string name : {"gpt2", "bert", "vit"})
    succeeds(check + name + ' ' + (scratch / name));
  std::filesystem::create_directory(scratch / "weights");
  succeeds(check + "weights " + (scratch / "weights"));

  const std::string weights = gradus::testing::source_path("examples/weights.py "),
                    original = folders + "gpt2/model.safetensors";
  succeeds(weights + "to-torch " + original + ' ' + (scratch / "pytorch_model.bin"));
  succeeds(weights + "to-safetensors " + (scratch / "pytorch_model.bin") + ' ' +
           (scratch / "model.safetensors"));
  check_same_files(scratch / "model.safetensors", original);
}

TEST_CASE("weights.py: --help works in a Python without PyTorch", "[hugging_face][python]") {
  if (std::system("python3 -c '' 2>/dev/null") != 0) {
    WARN("no python3 here: not checked");
    return;
  }
  const TemporaryFolder scratch;
  const std::string output = scratch / "output",
                    bare = "python3 -S " + gradus::testing::source_path("examples/weights.py ");
  CHECK(std::system((bare + "--help >" + output + " 2>&1").c_str()) == 0);
  CHECK_THAT(read_file(output), Contains("usage: python3 weights.py to-safetensors IN.bin"));
  CHECK(std::system((bare + "to-torch a b >" + output + " 2>&1").c_str()) != 0);
  CHECK_THAT(read_file(output), Contains("weights.py: needs PyTorch, which this Python lacks: "));
}

TEST_CASE("Hugging Face: damaged files are refused unless still valid", "[hugging_face][hostile]") {
  TemporaryFolder scratch;
  const std::string dir = scratch / "gpt2", config = dir + "/config.json";
  std::filesystem::copy(folders + "gpt2", dir);
  json small = json::parse(read_file(config));
  for (const char* key : {"task_specific_params", "initializer_range", "use_cache"})
    small.erase(key);
  write_file_atomically(config, small.dump());
  CHECK(count_taken(config, [&] {
          try {
            models::load_model<models::GPT>(dir);
          } catch (const Error& e) {  // wrong sizes show when weights are loaded
            const std::string message = e.what();
            if (message.find(dir + "/model.safetensors") == std::string::npos) throw;
            core::fail(config, ": ", message);
          }
        }) > 0);
  const std::string index = scratch / "vit/model.safetensors.index.json";
  std::filesystem::copy(folders + "vit", scratch / "vit");
  json files = {
      {"weight_map",
       {{"x", "model-00001-of-00002.safetensors"}, {"y", "model-00002-of-00002.safetensors"}}}};
  write_file_atomically(index, files.dump());
  count_taken(index, [&] {
    try {
      models::load_model<models::ViT>(scratch / "vit");
    } catch (const Error& e) {
      core::fail(index, ": ", e.what());
    }
  });
  const std::string tokenizer = scratch / "tokenizer.json";
  json pieces = {{"[UNK]", 0}, {"a", 1}, {"##b", 2}};
  write_file_atomically(
      tokenizer, json{{"added_tokens", {{{"id", 0}, {"content", "[UNK]"}}}},
                      {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}}},
                      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                      {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", pieces}}}}
                     .dump());
  CHECK(count_taken(tokenizer, [&] {
          const auto read = models::load_tokenizer(tokenizer);
          for (int64_t id = 0; id < read->vocab_size(); ++id) read->decode({id});
        }) > 0);
}

TEST_CASE("generate: ids outside the tokenizer are never sampled", "[hugging_face]") {
  const models::GPT model({.vocab = 9, .context = 8, .layers = 1, .heads = 1, .dim = 4});
  const auto ids = models::generate(model, {1, 8},
                                    {.tokens = 200, .sampling = {.temperature = 100}, .vocab = 3});
  CHECK(ids.size() == 200);
  CHECK(*std::max_element(ids.begin(), ids.end()) == 2);
  CHECK_THROWS_WITH(models::generate(model, {1}, {.vocab = 10}),
                    Contains("generate: expected vocab from 0 to 9, got 10"));
  CHECK_THROWS_WITH(models::generate(model, {1}, {.vocab = -1}), Contains("got -1"));
}

}  // namespace hugging_face_programs_test
