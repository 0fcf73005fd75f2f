// train_gpt and generate with characters, words and byte pairs, in memory and on disk, and with
// every model option.

#include <cstdio>
#include <numbers>

#include "examples/tasks/corpus.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/models/models.h"
#include "tests/support/train_bench.h"

namespace train_tokens_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

// A learning rate that does not depend on --steps.
const std::string constant = " --lr 1e-2 --min-lr 1e-2 --warmup 0";

/// A text of lines, with multi-byte characters and other words in its last tenth.
std::string mixed_text() {
  std::string text;
  for (int i = 0; text.size() < 9000; ++i)
    text += "line " + std::to_string(i * 7919 % 100) + ", \"the caf\u00e9\" of the text.\n";
  while (text.size() < 10000) text += "unheard zzz of \u65e5\u672c zzz\n";
  return text;
}

std::string last_line(const std::string& output) {
  return output.substr(output.rfind('\n', output.size() - 2) + 1);
}

double number_after(const std::string& text, const std::string& label) {
  const size_t at = text.rfind(label);
  REQUIRE(at != std::string::npos);
  return std::stod(text.substr(at + label.size()));
}

/// The training part of a text: nine tenths of its bytes.
std::string training_part(const std::string& text) {
  size_t at = text.size() * 9 / 10;
  while ((text[at] & 0xc0) == 0x80) --at;
  return text.substr(0, at);
}

}  // namespace

TEST_CASE("train_gpt: words and byte pairs, in memory and on disk, resumed and at once") {
  const std::string text = mixed_text();
  const Bench bench(text);
  const std::string kind = GENERATE("char", "word", "bpe");
  INFO(kind);
  const std::string vocab = kind == "char" ? "" : " --vocab 300",
                    flags = bench.flags + constant + " --eval-every 1" + vocab + " --tokenizer ";
  const Result whole = run("train_gpt", flags + kind + " --steps 4" + bench.out("whole"));
  INFO(whole.output);
  REQUIRE(whole.status == 0);
  CHECK_THAT(last_line(whole.output), Contains("final: step 4") && Contains(" bits_per_byte "));
  CHECK_THAT(bench.file("whole/loss.csv"), Contains("step,train_loss,val_loss,bits_per_byte\n"));

  REQUIRE(run("train_gpt", flags + kind + " --steps 2" + bench.out("part")).status == 0);
  REQUIRE(run("train_gpt", "--resume --steps 4" + bench.out("part")).status == 0);
  const std::string disk = flags + kind + " --on-disk --steps 2" + bench.out("disk");
  REQUIRE(run("train_gpt", disk).status == 0);
  const std::string file = kind == "char" ? "disk/text.tokens" : "disk/train.tokens";
  REQUIRE(bench.has(file));
  const auto written = fs::last_write_time(bench.path / file);
  const std::string tokens = bench.file(file);
  REQUIRE(run("train_gpt", "--resume --steps 3" + bench.out("disk")).status == 0);
  CHECK(fs::last_write_time(bench.path / file) == written);  // reused
  write_file_atomically(bench / file, tokens.substr(0, tokens.size() - 1) + '\0');
  REQUIRE(run("train_gpt", "--resume --steps 4" + bench.out("disk")).status == 0);
  CHECK(bench.file(file) == tokens);  // recreated
  for (const char* other : {"part/", "disk/"})
    for (const char* same : {"model.safetensors", "tokenizer.json", "loss.csv"})
      CHECK(bench.file(other + std::string(same)) == bench.file(std::string("whole/") + same));

  // A different text of the same length gives new tokens.
  std::string changed = text;
  changed[100] = changed[100] == 'x' ? 'y' : 'x';
  write_file_atomically(bench / "text.txt", changed);
  CHECK_THAT(run("train_gpt", "--resume --steps 5" + bench.out("part")).output,
             Contains("the data differs from that of the run"));
  CHECK_THAT(run("train_gpt", "--resume --steps 5" + bench.out("disk")).output,
             Contains("the data differs from that of the run") || Contains("is not among"));
}

TEST_CASE("train_gpt: a refused --resume leaves the run's token files as they are") {
  const std::string text = mixed_text();
  const Bench bench(text);
  REQUIRE(run("train_gpt", bench.flags + constant + " --on-disk --steps 1" + bench.out()).status ==
          0);
  const std::string tokens = bench.file("out/text.tokens");
  const size_t line = text.find('\n') + 1;
  write_file_atomically(bench / "other.txt", text.substr(line) + text.substr(0, line));
  const std::string other = " --data '" + (bench / "other.txt") + "'";
  const Result refused = run("train_gpt", "--resume --steps 2" + other + bench.out());
  INFO(refused.output);
  CHECK(refused.status == 1);
  CHECK_THAT(refused.output, Contains("the data differs from that of the run"));
  CHECK(bench.file("out/text.tokens") == tokens);
  CHECK(run("train_gpt", "--resume --steps 2" + bench.out()).status == 0);
  CHECK(bench.file("out/text.tokens") == tokens);
}

TEST_CASE("train_gpt: --eval-only on disk leaves no trace") {
  const Bench bench(mixed_text());
  const std::string flags = bench.flags + constant + " --on-disk --steps 2 --tokenizer bpe";
  const Result trained = run("train_gpt", flags + bench.out("a"));
  INFO(trained.output);
  REQUIRE(trained.status == 0);
  fs::create_directory(bench.path / "tmp");
  const std::string tmp = "TMPDIR='" + (bench / "tmp") + "' ",
                    before = bench.file("a/train.tokens");
  const auto final_loss = [](const std::string& output) {
    const size_t at = output.rfind(" val_loss ");
    return at == std::string::npos ? output : output.substr(at, 40);
  };
  // The files are reused.
  CHECK(final_loss(
            run("train_gpt", "--eval-only" + bench.out("a"), "export TMPDIR=/nowhere; ").output) ==
        final_loss(trained.output));
  // Evaluating on a different text leaves the run's token files as they are.
  write_file_atomically(bench / "other.txt", mixed_text() + mixed_text());
  const Result other =
      run("train_gpt", "--eval-only --data '" + (bench / "other.txt") + "'" + bench.out("a"), tmp);
  INFO(other.output);
  CHECK(other.status == 0);
  CHECK(bench.file("a/train.tokens") == before);
  CHECK(fs::is_empty(bench.path / "tmp"));
  // Evaluating another run's model writes no file.
  const std::vector<std::string> names = bench.names(".");
  const std::string from = flags.substr(0, flags.find(" --layers")) +
                           " --on-disk --eval-only --init-from '" + (bench / "a") + "'";
  const Result elsewhere = run("train_gpt", from + bench.out("b"), tmp);
  INFO(elsewhere.output);
  CHECK(final_loss(elsewhere.output) == final_loss(trained.output));
  CHECK(bench.names(".") == names);
  CHECK(fs::is_empty(bench.path / "tmp"));
}

TEST_CASE("train_gpt: tokenizers learn only from training text, and bits_per_byte is right") {
  const std::string text = mixed_text(), train = training_part(text);
  const Bench bench(text);
  const std::string flags = bench.flags + " --steps 1 --vocab 270 --tokenizer ";
  const bool own = GENERATE(false, true);
  std::string more = bench.out(), learned = train, validation = text.substr(train.size());
  if (own) {
    learned = text, validation = text.substr(100, 900);
    write_file_atomically(bench / "val.txt", validation);
    more += " --val-data '" + (bench / "val.txt") + "'";
  }
  const Result result = run("train_gpt", flags + "bpe" + more);
  INFO(result.output);
  REQUIRE(result.status == 0);
  const auto bpe = models::BPETokenizer::train(learned, {.vocab_size = 270});
  bpe.save(bench / "expected.json");
  CHECK(bench.file("out/tokenizer.json") == bench.file("expected.json"));

  const models::TextData data(bpe.encode(learned), bpe.encode(validation), 16);
  const auto model = models::load_model<models::GPT>(bench / "out");
  const NoGrad no_grad;
  const auto [x, y] = data.windows(models::Split::validation, 0, 10000);
  const auto [u, v] = data.after_windows(models::Split::validation);
  const auto windows = static_cast<double>(y.numel()), rest = static_cast<double>(v.numel());
  const double sum = windows * model.loss(x, y).item() + rest * model.loss(u, v).item();
  const double loss = sum / (windows + rest);
  const std::vector<int64_t> tokens = bpe.encode(validation);  // all but the first are predicted
  const double bits =
      sum / (std::numbers::ln2 *
             static_cast<double>(bpe.decode({tokens.begin() + 1, tokens.end()}).size()));
  CHECK(number_after(result.output, "val_loss ") == Approx(loss).margin(6e-5).epsilon(0));
  CHECK(number_after(result.output, "bits_per_byte ") == Approx(bits).margin(6e-5).epsilon(0));

  REQUIRE(run("train_gpt", flags + "word --overwrite" + more).status == 0);
  models::WordTokenizer(learned, {.max_words = 270, .special = {"[UNK]"}})
      .save(bench / "expected.json");
  CHECK(bench.file("out/tokenizer.json") == bench.file("expected.json"));
}

TEST_CASE("generate: prints the text that models::generate gives, of words and of byte pairs") {
  const Bench bench(mixed_text());
  const std::string kind = GENERATE("word", "bpe");
  INFO(kind);
  REQUIRE(run("train_gpt",
              bench.flags + constant + " --steps 30 --vocab 280 --tokenizer " + kind + bench.out())
              .status == 0);
  const auto model = models::load_model<models::GPT>(bench / "out");
  const auto tokenizer = models::load_tokenizer(bench / "out/tokenizer.json");
  const std::string prompt = "line 7, \"the";
  const std::vector<int64_t> ids = tokenizer->encode(prompt);
  models::GenerateOptions options{.tokens = 60, .sampling = {.temperature = 2}, .seed = 4};
  const std::string ask = "--model '" + (bench / "out") + "' --prompt '" + prompt +
                          "' --temperature 2 --top-k 0 --seed 4 --tokens 60";
  auto text_of = [&](const std::vector<int64_t>& more) {
    std::vector<int64_t> all = ids;
    all.insert(all.end(), more.begin(), more.end());
    return prompt + tokenizer->decode(all).substr(tokenizer->decode(ids).size()) + '\n';
  };
  const std::vector<int64_t> more = models::generate(model, ids, options);
  CHECK(run("generate", ask).output == text_of(more));
  // Letters in the middle of the text, of more than one token or of a part of one.
  const std::string text = text_of(more);
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  size_t at = prompt.size() + 4;
  while (!letter(text[at]) || !letter(text[at + 1])) ++at;
  const std::string stop = text.substr(at, 2);
  const size_t first = text.find(stop, prompt.size());
  CHECK(run("generate", ask + " --stop " + stop).output == text.substr(0, first) + '\n');
  CHECK(run("generate", ask + " --stop 'nowhere in the text'").output == text);
  const Result empty = run("generate", ask + " --prompt ''");
  CHECK(empty.status == 1);
  CHECK_THAT(empty.output, Contains("--prompt: expected at least one token"));
  // Without a prompt: after a line break or, of words, after the first word.
  const Result unprompted = run("generate", "--model '" + (bench / "out") + "' --tokens 5");
  INFO(unprompted.output);
  CHECK(unprompted.status == 0);
  CHECK_THAT(unprompted.output,
             Catch::Matchers::StartsWith(kind == "word" ? tokenizer->decode({1}) : "\n"));
}

TEST_CASE("generate: a folder of another kind of model is refused by its name") {
  const TemporaryFolder scratch;
  models::save_model(scratch / "bert", models::Bert({.vocab = 9, .layers = 1, .dim = 8}));
  const Result result = run("generate", "--model '" + scratch / "bert'");
  CHECK(result.status == 1);
  CHECK(one_line(result.output));
  CHECK_THAT(result.output, Contains("expected a model of kind \"gpt\", got \"bert\""));
}

TEST_CASE("TokenText decodes tokens one at a time", "[support]") {
  const std::string text = "\"One\" two: it's (three) \"four\", five.";
  const models::WordTokenizer words(text);
  TokenText pieces(words);
  std::string sum;
  for (const int64_t id : words.encode(text)) sum += pieces.add(id);
  CHECK(sum == text);

  std::string long_text;
  for (int i = 0; i < 700; ++i) long_text += "\u00e9" + std::to_string(i);
  const auto bytes = models::BPETokenizer::train("", {.vocab_size = 256});
  TokenText some(bytes);
  sum.clear();
  for (const int64_t id : bytes.encode(long_text)) sum += some.add(id);
  CHECK(sum == long_text);
}

TEST_CASE("train_gpt: every model option takes effect") {
  const Bench bench;
  int runs = 0;
  for (const char* positions : {"learned", "sinusoidal", "rotary"})
    for (const char* norm : {"layer", "rms"})
      for (const char* layers : {"", " --gated --activation silu --hidden 24"})
        for (const int kv_heads : {0, 1}) {
          const std::string flags = std::string(" --positions ") + positions + " --norm " + norm +
                                    layers + " --kv-heads " + std::to_string(kv_heads) +
                                    " --window " + std::to_string(3 * kv_heads);
          INFO(flags);
          const Result result =
              run("train_gpt", bench.flags + constant + flags +
                                   " --eval-batches 1 --steps 1 --overwrite" + bench.out());
          REQUIRE(result.status == 0);
          const Json config = Json::parse(bench.file("out/config.json"));
          CHECK(config["positions"] == positions);
          CHECK(config["norm"] == norm);
          CHECK(config["kv_heads"] == kv_heads);
          CHECK(config["window"] == 3 * kv_heads);
          CHECK(config["gated"] == (*layers != 0));
          CHECK(config["hidden"] == (*layers ? 24 : 0));
          if (++runs % 7 == 0) {
            CHECK(run("train_gpt", "--resume --steps 2" + bench.out()).status == 0);
            CHECK(run("generate", "--tokens 20 --model '" + (bench / "out'")).status == 0);
          }
        }
  CHECK_THAT(run("train_gpt", "--resume --norm layer" + bench.out()).output,
             Contains("--norm contradicts"));
  const Result all = run("train_gpt", bench.flags + constant +
                                          " --layers 2 --qk-norm --zero-init --value-shortcut "
                                          "--embedding-shortcut --logit-cap 20 --bigram "
                                          "--token-shift --activation relu_squared "
                                          "--eval-batches 1 --steps 1 --overwrite" +
                                          bench.out());
  INFO(all.output);
  REQUIRE(all.status == 0);
  const Json config = Json::parse(bench.file("out/config.json"));
  for (const char* option :
       {"qk_norm", "zero_init", "value_shortcut", "embedding_shortcut", "bigram", "token_shift"})
    CHECK(config[option] == true);
  CHECK(config["logit_cap"] == 20);
  CHECK(config["activation"] == "relu_squared");
  CHECK(run("train_gpt", "--resume --steps 2" + bench.out()).status == 0);
  CHECK(run("generate", "--tokens 20 --model '" + (bench / "out'")).status == 0);
}

TEST_CASE("train_gpt: a run from before tokenizers were stored resumes") {
  const Bench bench;
  const std::string flags = bench.flags + constant + " --eval-every 2";
  REQUIRE(run("train_gpt", flags + " --steps 2" + bench.out()).status == 0);
  bench.change_metadata([](auto& metadata) {
    Json options = Json::parse(metadata["options"]);
    for (const char* later :
         {"tokenizer", "vocab", "on_disk", "gated", "hidden", "kv_heads", "positions", "norm",
          "norm_eps", "window", "qk_norm", "zero_init", "value_shortcut", "embedding_shortcut",
          "logit_cap", "bigram", "token_shift", "logit_rows"})
      CHECK(options.erase(later) == 1);
    metadata["options"] = options.dump();
  });
  std::string losses = "step,train_loss,val_loss\n";
  for (const auto& row : bench.rows("out/loss.csv"))
    losses += std::to_string(static_cast<int>(row[0])) + ',' + std::to_string(row[1]) + ',' +
              std::to_string(row[2]) + '\n';
  write_file_atomically(bench / "out/loss.csv", losses);
  for (const char* steps : {"4", "6"}) {
    const Result result = run("train_gpt", std::string("--resume --steps ") + steps + bench.out());
    INFO(result.output);
    REQUIRE(result.status == 0);
  }
  REQUIRE(run("train_gpt", flags + " --steps 6" + bench.out("whole")).status == 0);
  CHECK(bench.file("out/model.safetensors") == bench.file("whole/model.safetensors"));
  const std::string now = bench.file("out/loss.csv");
  INFO(now);
  CHECK_THAT(now, Contains("step,train_loss,val_loss,bits_per_byte\n0,") && Contains(",nan\n2,"));
  CHECK(now.substr(now.find("\n4,")) ==
        bench.file("whole/loss.csv").substr(bench.file("whole/loss.csv").find("\n4,")));
}

TEST_CASE("train_gpt: errors in a text or a tokenizer name the file") {
  const Bench bench(mixed_text());
  auto refused = [&](const std::string& arguments, const std::string& why) {
    const Result result = run("train_gpt", arguments + bench.out());
    INFO(arguments << '\n' << result.output);
    CHECK(result.status == 1);
    CHECK(one_line(result.output));
    CHECK_THAT(result.output, Contains(why));
    CHECK(!bench.has("out/model.safetensors"));
  };
  const std::string bad = bench / "bad.txt", short_text = bench / "short.txt";
  write_file_atomically(bad, std::string(1000, 'a') + "\xff" + std::string(1000, 'b'));
  write_file_atomically(short_text, "abc abc abc");
  const std::string data = "--data '" + (bench / "text.txt") + "'", disk = " --on-disk";
  for (const std::string& where : {std::string(), disk}) {
    for (const char* kind : {"char", "word"})
      refused("--tokenizer " + std::string(kind) + " --data '" + bad + "'" + where, "bad.txt: ");
    refused(data + " --val-data '" + bad + "'" + where,
            "bad.txt: CharTokenizer: expected UTF-8, got an invalid sequence at byte 1000");
    refused(data + " --tokenizer word --val-data '" + bad + "'" + where, "byte 1000");
    for (const char* kind : {"char", "word", "bpe"})
      refused("--tokenizer " + std::string(kind) + " --data '" + short_text + "'" + where,
              "too few to");
  }
  refused("--on-disk", "--on-disk: expected one file");
  refused("--on-disk --data /nowhere", "--on-disk: /nowhere: no such file");
  const std::string too_long(300, 'x');
  refused("--on-disk --data " + too_long, "--on-disk: " + too_long + ": no such file");
  refused(data + " --tokenizer " + too_long, "expected char, word, bpe or a folder");
  refused(data + " --tokenizer bpe --vocab 255", "256");
  refused(data + " --tokenizer letters", "char, word, bpe");
  refused(data + " --vocab 300", "--vocab has no effect with --tokenizer char");
  // Byte pairs accept any bytes.
  write_file_atomically(bad, std::string(1000, 'a') + std::string(3, '\0') + "\xff\xfe");
  CHECK(run("train_gpt", "--data '" + bad + "' --tokenizer bpe --vocab 256" + small + constant +
                             " --steps 1" + bench.out())
            .status == 0);
  const Result chosen =
      run("train_gpt", "--init-from '" + (bench / "out") + "' --vocab 300" + bench.out("other"));
  CHECK(chosen.status == 1);
  CHECK_THAT(chosen.output, Contains("--init-from uses its folder's tokenizer"));
}

TEST_CASE("bytes of targets: white space counts where tokens do not contain it", "[support]") {
  const TemporaryFolder folder;
  const std::string path = folder / "text.txt";
  std::string text;
  for (int i = 0; i < 400; ++i) text += i % 3 == 0 ? "the test " : "this text ";
  write_file_atomically(path, text);
  for (const std::string name : {"bert", "llama2", "gpt2"}) {
    CAPTURE(name);
    const std::string of = gradus::testing::source_path("tests/golden/hugging_face/") + name;
    const Corpus corpus({.data = path, .val_data = "", .tokenizer = {of}}, "", "", 16);
    double bytes = 0;
    for (int64_t i = 0; i < corpus.validation_batches(); ++i)
      bytes += corpus.bytes(corpus.validation_batch(i).targets);
    const auto tokens = static_cast<double>(corpus.tokenizer().encode(text).size());
    CHECK(bytes / static_cast<double>(corpus.validation_tokens()) ==
          Approx(static_cast<double>(text.size()) / tokens).epsilon(0.03));
  }
}

TEST_CASE("a corpus begins samples with a line break or, without one, as its text does",
          "[support]") {
  const TemporaryFolder folder;
  const auto first = [&](const std::string& text, const std::string& tokenizer = "char") {
    write_file_atomically(folder / "text.txt", text);
    const Corpus corpus(
        {.data = folder / "text.txt", .val_data = "", .tokenizer = {tokenizer, 300}}, "", "", 4);
    return corpus.tokenizer().decode(corpus.first_tokens());
  };
  std::string line;
  for (int i = 0; i < 40; ++i) line += "ba dc ";
  CHECK(first(line + '\n' + line) == "\n");
  CHECK(first(line) == "b");
  CHECK(first(line + '\n' + line, "bpe") == "\n");
}

TEST_CASE("a corpus's validation batches hold about 4096 tokens, the last one the rest",
          "[support]") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "text.txt", sample_text());
  write_file_atomically(folder / "val.txt", sample_text().substr(0, 10000));
  const auto shapes = [&](int64_t context) {
    const Corpus corpus({.data = folder / "text.txt", .val_data = folder / "val.txt"}, "", "",
                        context);
    std::vector<Shape> all;
    for (int64_t i = 0; i < corpus.validation_batches(); ++i)
      all.push_back(corpus.validation_batch(i).inputs.shape());
    return all;
  };
  // Of 9999 targets.
  CHECK(shapes(1000) == std::vector<Shape>{{4, 1000}, {4, 1000}, {1, 1000}, {1, 999}});
  CHECK(shapes(3333) == std::vector<Shape>{{1, 3333}, {1, 3333}, {1, 3333}});
  CHECK(shapes(5000) == std::vector<Shape>{{1, 5000}, {1, 4999}});
}

TEST_CASE("tokenizers: the kinds with their special tokens and sizes, or a folder's", "[support]") {
  const TemporaryFolder folder;
  const std::string text = "the cat sat on the mat, the cat ran";
  const auto made = [&](const TokenizerOptions& o, const std::string& begins_with = "") {
    return make_tokenizer(o, begins_with, text, {"[UNK]", "[X]"});
  };
  CHECK(TokenizerOptions().name == "char");
  CHECK(TokenizerOptions().vocab == 4096);
  for (const std::string kind : {"char", "word", "bpe"}) {
    CHECK(made({kind, 300})->has_special("[X]"));
    CHECK(TokenizerOptions{.name = kind}.folder().empty());
  }
  CHECK(dynamic_cast<models::CharTokenizer*>(made({"char", 1}).get()));
  CHECK(made({"word", 2})->vocab_size() == 2 + 2);  // and the special tokens
  CHECK(made({"bpe", 260})->vocab_size() == 260);
  const std::unique_ptr<models::Tokenizer> of_words = made({"word", 3});
  of_words->save(folder / "tokenizer.json");
  CHECK(made({"char", 1}, folder / "")->to_json() == of_words->to_json());
  CHECK(made({folder / "", 1})->to_json() == of_words->to_json());
  CHECK(made({"/nowhere", 1}, folder / "")->to_json() == of_words->to_json());
  CHECK_THROWS_WITH(made({"/nowhere", 1}), Contains("expected char, word, bpe or a folder"));
}

TEST_CASE("tokenizers: a model may have more tokens than one of byte pairs, and no fewer",
          "[support]") {
  const TemporaryFolder words, pairs;
  models::WordTokenizer("a b c", {}).save(words / "tokenizer.json");
  const auto of_words = models::load_tokenizer(words / "");
  models::BPETokenizer::train("", {.vocab_size = 256}).save(pairs / "tokenizer.json");
  const int64_t n = of_words->vocab_size();
  CHECK(load_tokenizer_for(words / "", n)->vocab_size() == n);
  CHECK_THROWS_WITH(load_tokenizer_for(words / "", n + 1),
                    Contains("the model has " + std::to_string(n + 1) + " tokens"));
  CHECK(load_tokenizer_for(pairs / "", 256)->vocab_size() == 256);
  CHECK(load_tokenizer_for(pairs / "", 300)->vocab_size() == 256);
  CHECK_THROWS_WITH(load_tokenizer_for(pairs / "", 255),
                    Contains("the model has 255 tokens, the tokenizer 256"));
  // The size for a new model, and for one that begins with larger or smaller weights.
  CHECK(vocab_for<models::GPT>("", *of_words) == n);
  CHECK(vocab_for<models::GPT>(words / "", *of_words) == n);  // a tokenizer alone
  for (const int64_t vocab : {n - 1, n + 5}) {
    models::save_model(words / "model",
                       models::GPT({.vocab = vocab, .layers = 1, .heads = 1, .dim = 2}));
    CHECK(vocab_for<models::GPT>(words / "model", *of_words) == std::max(vocab, n));
  }
}

TEST_CASE("a corpus on disk equals that in memory", "[support]") {
  const TemporaryFolder folder;
  const std::string path = folder / "text.txt";
  write_file_atomically(path, mixed_text());
  for (const std::string kind : {"char", "word", "bpe"}) {
    CorpusOptions options{.data = path, .val_data = "", .tokenizer = {kind, 300}};
    const Corpus memory(options, "", "", 16);
    options.on_disk = true;
    const Corpus disk(options, "", folder / "run", 16);
    auto check_same = [&](const models::PackedBatch& a, const models::PackedBatch& b) {
      CHECK(a.inputs.to_vector<int64_t>() == b.inputs.to_vector<int64_t>());
      CHECK(a.targets.to_vector<int64_t>() == b.targets.to_vector<int64_t>());
      CHECK(disk.bytes(a.targets) == memory.bytes(b.targets));
    };
    for (const models::Split part : {models::Split::train, models::Split::validation})
      check_same(disk.random_batch(part, 200, 1, 2, 3), memory.random_batch(part, 200, 1, 2, 3));
    REQUIRE(disk.validation_tokens() == memory.validation_tokens());
    REQUIRE(disk.validation_batches() == memory.validation_batches());
    for (int64_t i = 0; i < disk.validation_batches(); ++i)
      check_same(disk.validation_batch(i), memory.validation_batch(i));
    CHECK(disk.opening() == memory.opening());
    CHECK(disk.id() != memory.id());
  }
}

TEST_CASE("token files are reused if made from the same text and tokenizer", "[support]") {
  const TemporaryFolder folder;
  const std::string path = folder / "text.txt";
  const std::string tokens = folder / "run/train.tokens";
  const auto make = [&](const std::string& text, TokenFiles files = TokenFiles::replace) {
    write_file_atomically(path, text);
    const CorpusOptions of_words{
        .data = path, .val_data = "", .tokenizer = {"word", 300}, .on_disk = true};
    const Corpus corpus(of_words, "", folder / "run", 16, files);
    return corpus.random_batch(models::Split::train, 200, 1, 2, 3).targets.to_vector<int64_t>();
  };
  const std::string text = mixed_text(), head = "other words ";
  const std::string another = head + text.substr(head.size());  // of the same length
  const auto ids = make(text);
  const std::string file = read_file(tokens);
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(tokens, old);
  CHECK(make(text) == ids);
  CHECK(fs::last_write_time(tokens) == old);
  const auto its = make(another, TokenFiles::read_only);
  CHECK(its != ids);
  CHECK(read_file(tokens) == file);
  CHECK(make(another, TokenFiles::keep) == its);
  CHECK(read_file(tokens) == file);
  fs::remove(tokens);
  make(text, TokenFiles::read_only);
  CHECK(!fs::exists(tokens));
  CHECK(make(text, TokenFiles::keep) == ids);
  CHECK(read_file(tokens) == file);
  CHECK(make(another) == its);
  CHECK(read_file(tokens) != file);
  CHECK(make(text) == ids);
  CHECK(read_file(tokens) == file);
  std::string unknown = file;
  std::fill_n(unknown.begin() + 48, 16, '\0');  // as written by earlier versions
  write_file_atomically(tokens, unknown);
  CHECK(make(text) == ids);
  CHECK(read_file(tokens) == file);
}

TEST_CASE("a corpus on disk takes its characters from the head of the text", "[support]") {
  const TemporaryFolder folder;
  const std::string path = folder / "text.txt";
  write_file_atomically(path, mixed_text());
  // The last tenth has a z. The head ends within a character.
  CorpusOptions options{.data = path, .val_data = "", .tokenizer = {}, .on_disk = true};
  options.head = static_cast<int64_t>(mixed_text().find("\u00e9")) + 1;
  CHECK_THROWS_WITH(Corpus(options, "", folder / "run", 16),
                    Contains("text.txt") && Contains("is not among"));
}

TEST_CASE("train_gpt: --data takes a folder, several texts and standard input") {
  const Bench bench;
  const std::string first = sample_text(3000), second = sample_text(4000).substr(1000);
  for (const char* folder : {"texts", "texts/sub", "texts/.hidden", "empty"})
    std::filesystem::create_directories(bench / folder);
  write_file_atomically(bench / "texts/a.txt", first + "no line break");
  write_file_atomically(bench / "texts/sub/b", second);
  write_file_atomically(bench / "texts/.notes", "\xff");
  write_file_atomically(bench / "texts/.hidden/c", "\xff");
  write_file_atomically(bench / "whole,one", first + "no line break\n" + second);
  const auto weights = [&](const std::string& data, const std::string& before = "") {
    const Result result =
        run("train_gpt", small + " --steps 2 --overwrite --data " + data + bench.out(), before);
    INFO(result.output);
    CHECK(result.status == 0);
    return bench.file("out/model.safetensors");
  };
  const std::string whole = weights("'" + (bench / "whole,one") + "'");
  CHECK(weights("'" + (bench / "texts") + "'") == whole);
  CHECK(weights("'" + (bench / "texts/a.txt") + "," + (bench / "texts/sub/b") + "'") == whole);
  CHECK(weights("- < '" + (bench / "whole,one") + "'") == whole);

  const auto refused = [&](const std::string& data, const std::string& why) {
    const Result result = run("train_gpt", small + " --steps 2 --data " + data + bench.out("no"));
    CHECK(result.status == 1);
    CHECK_THAT(result.output, Contains(why));
  };
  const std::string a = "'" + (bench / "texts/a.txt");
  refused(a + "," + (bench / "missing") + "'", bench / "missing");
  refused(a + ",'", "one is empty");
  refused("'" + (bench / "empty") + "'", "it holds no file");
  refused(a + "," + (bench / "texts/.notes") + "'", bench / "texts/.notes");
  refused("'" + (bench / "texts") + "' --on-disk", "--on-disk: expected one file");
}

TEST_CASE("train_gpt: --tokenizer takes that of a folder") {
  const Bench bench(mixed_text());
  const std::string other = " --data '" + (bench / "text.txt") + "'" + small + " --seed 9";
  REQUIRE(run("train_gpt", bench.flags + " --steps 1 --tokenizer bpe --vocab 280" + bench.out("a"))
              .status == 0);
  std::filesystem::remove(bench / "a/model.safetensors");
  const std::string from = " --tokenizer '" + (bench / "a") + "'";
  const Result train = run("train_gpt", other + from + " --steps 2" + bench.out("b"));
  INFO(train.output);
  REQUIRE(train.status == 0);
  CHECK(bench.file("b/tokenizer.json") == bench.file("a/tokenizer.json"));
  CHECK(models::load_config<models::GPT>(bench / "b").vocab == 280);
  std::filesystem::remove_all(bench / "a");
  CHECK(run("train_gpt", "--resume --steps 3" + bench.out("b")).status == 0);
  CHECK(run("generate", "--prompt line --model '" + (bench / "b") + "'").status == 0);

  const auto message = [&](const std::string& flags) {
    const Result result = run("train_gpt", other + flags + " --steps 1" + bench.out("c"));
    CHECK(result.status == 1);
    return result.output;
  };
  CHECK_THAT(message(from), Contains("expected char, word, bpe or a folder with a tokenizer"));
  std::filesystem::create_directory(bench / "empty");
  CHECK_THAT(message(" --tokenizer '" + (bench / "empty") + "'"), Contains(bench / "empty"));
}

}  // namespace train_tokens_test
