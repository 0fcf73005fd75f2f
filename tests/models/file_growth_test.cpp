// Reading any file, valid or not, takes time linear in its size. tests "[.growth]" prints the times
// for 1, 2, 4 and 8 MB.

#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <functional>

#include "gradus/core/core.h"
#include "gradus/models/folder/image_info.h"
#include "gradus/models/models.h"
#include "gradus/optim/optim.h"
#include "tests/support/damaged_files.h"
#include "tests/support/packed.h"
#include "tests/support/temporary_folder.h"

namespace file_growth_test {

using namespace gradus;
using namespace gradus::models;

namespace {

/// Concatenates begin, piece(0), piece(1), ..., end, to at least n bytes.
std::string repeated(size_t n, const std::string& begin,
                     const std::function<std::string(size_t)>& piece, const std::string& end) {
  std::string bytes = begin;
  for (size_t i = 0; bytes.size() + end.size() < n; ++i) bytes += piece(i);
  return bytes + end;
}

std::string little_endian(uint64_t n, size_t bytes) {
  return {reinterpret_cast<const char*>(&n), bytes};
}

std::string safetensors(const std::string& header, size_t data) {
  return little_endian(header.size(), 8) + header + std::string(data, 'x');
}

std::string with_commas_between(size_t i, const std::string& piece) {
  return (i ? "," : "") + piece;
}

/// A word of four letters and digits, different for each i.
std::string word(size_t i) {
  std::string text;
  for (int k = 0; k < 4; ++k, i /= 36) text += "abcdefghijklmnopqrstuvwxyz0123456789"[i % 36];
  return text;
}

std::string gzip(const std::string& bytes) { return packed(bytes, 15 + 16, 1); }

using namespace std::string_literals;

struct Format {
  const char* name;
  std::function<std::string(size_t)> make;       // a file of about n bytes
  std::function<void(const std::string&)> read;  // may throw Error
};

std::string tokenizer_json(const std::string& type, const std::string& more,
                           const std::string& vocab) {
  return "{\"type\":\"" + type + "\"," + more + "\"vocab\":[" + vocab + "]}";
}

/// Merges of letters into pairs, and of pairs into quadruples, for a file of n bytes.
struct Merges {
  std::vector<std::string> merged, merges;
};
Merges merges_for(size_t n) {
  const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  Merges all;
  auto add = [&](const std::string& a, const std::string& b) {
    all.merged.push_back(a + b);
    all.merges.push_back(a + ' ' + b);
  };
  for (const char a : letters)
    for (const char b : letters) add(std::string(1, a), std::string(1, b));
  const size_t pairs = all.merged.size();
  for (size_t i = 0; i < pairs * pairs && all.merged.size() * 10 < n; ++i)
    add(std::string(all.merged[i % pairs]), std::string(all.merged[i / pairs]));
  return all;
}

std::vector<Format> safetensors_formats(const TemporaryFolder&) {
  const auto load = [](const std::string& path) { load_safetensors(path); };
  const auto tensor_entry = [](size_t i) {
    return with_commas_between(i, '"' + std::to_string(i) +
                                      R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
                                      std::to_string(i) + ',' + std::to_string(i + 1) + "]}");
  };
  return {
      {"safetensors: one tensor",
       [](size_t n) {
         return safetensors(R"({"x":{"dtype":"BF16","shape":[)" + std::to_string(n / 2) +
                                R"(],"data_offsets":[0,)" + std::to_string(n / 2 * 2) + "]}}",
                            n / 2 * 2);
       },
       load},
      {"safetensors: many tensors",
       [=](size_t n) {
         size_t count = 0;
         const std::string header = repeated(
             n, "{", [&](size_t i) { return count = i + 1, tensor_entry(i); }, "}");
         return safetensors(header, count);
       },
       load},
      {"safetensors: metadata",
       [](size_t n) {
         return safetensors(
             repeated(
                 n, "{\"__metadata__\":{",
                 [](size_t i) { return with_commas_between(i, '"' + word(i) + "\":\"\""); }, "}}"),
             0);
       },
       load},
      {"safetensors: axes",
       [](size_t n) {
         return safetensors(repeated(
                                n, R"({"x":{"dtype":"U8","data_offsets":[0,1],"shape":[1)",
                                [](size_t) { return ",1"; }, "]}}"),
                            1);
       },
       load},
      {"checkpoint of another",
       [=](size_t n) {
         size_t count = 0;
         const std::string header = repeated(
             n, R"({"__metadata__":{"random":"1 2"},)",
             [&](size_t i) { return count = i + 1, tensor_entry(i); }, "}");
         return safetensors(header, count);
       },
       [](const std::string& path) {
         nn::Linear model(2, 1);
         optim::AdamW optimizer(model.parameters());
         Checkpoint(path).restore(model, optimizer);
       }},
  };
}

std::vector<Format> json_formats(const TemporaryFolder& folder) {
  const std::string dir = folder.path.string();
  const auto config = [=](const std::string& path) {
    std::filesystem::rename(path, config_path(dir));
    load_config<GPT>(dir);
  };
  const auto info = [=](const std::string& path) {
    std::filesystem::rename(path, image_info_path(dir));
    load_image_info(dir);
  };
  const auto numbers = [](size_t n, const char* number) {
    return repeated(
        n / 2, "", [&](size_t i) { return with_commas_between(i, number); }, "");
  };
  return {
      {"config.json: entries",
       [](size_t n) {
         return repeated(
             n, R"({"model":"gpt")", [](size_t i) { return ",\"" + word(i) + "\":1"; }, "}");
       },
       config},
      {"config.json: a number",
       [](size_t n) {
         return repeated(
             n, R"({"model":"gpt","dim":1.)", [](size_t) { return "1"; }, "}");
       },
       config},
      {"config.json: an array",
       [=](size_t n) {
         return R"({"model":"gpt","dim":[[)" + numbers(n, "1") + numbers(n, "1") + "]]}";
       },
       config},
      {"images.json: classes",
       [](size_t n) {
         return repeated(
             n, R"({"mean":[1],"std":[1],"classes":[)",
             [](size_t i) { return with_commas_between(i, "\"c\""); }, "]}");
       },
       info},
      {"images.json: channels",
       [=](size_t n) {
         return R"({"classes":[],"mean":[)" + numbers(n, "0.5") + R"(],"std":[)" +
                numbers(n, "0.5") + "]}";
       },
       info},
  };
}

std::vector<Format> tokenizer_formats(const TemporaryFolder& folder) {
  const auto load = [](const std::string& path) {
    const auto tokenizer = load_tokenizer(path);
    std::vector<int64_t> ids(static_cast<size_t>(tokenizer->vocab_size()));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
    tokenizer->decode(ids);
  };
  const auto list = [](size_t n, const std::function<std::string(size_t)>& piece) {
    return repeated(
        n, "", [&](size_t i) { return with_commas_between(i, '"' + piece(i) + '"'); }, "");
  };
  // Writes vocab.json and returns the lines of merges.txt.
  const auto gpt2 = [&folder](size_t n) {
    const Merges all = merges_for(n);
    BPETokenizer::train(" ", {.vocab_size = 256}).save_gpt2(folder / "vocab.json", folder / "none");
    std::string vocab = read_file(folder / "vocab.json"), lines = "#version: 0.2\n";
    vocab.resize(vocab.rfind('}'));
    for (size_t i = 0; i < all.merged.size(); ++i) {
      vocab += ",\"" + all.merged[i] + "\":" + std::to_string(256 + i);
      lines += all.merges[i] + '\n';
    }
    overwrite(folder / "vocab.json", vocab + "}");
    return lines;
  };
  const auto load_gpt2 = [&folder](const std::string& path) {
    BPETokenizer::load_gpt2(folder / "vocab.json", path, {});
  };
  return {
      {"tokenizer: char",
       [=](size_t n) {
         return tokenizer_json("char", "", list(n, [](size_t i) {
                                 std::string c;
                                 const size_t at = 0x10000 + i;
                                 for (const size_t byte : {0xf0 | at >> 18, 0x80 | (at >> 12 & 63),
                                                           0x80 | (at >> 6 & 63), 0x80 | (at & 63)})
                                   c += static_cast<char>(byte);
                                 return c;
                               }));
       },
       load},
      {"tokenizer: special",
       [=](size_t n) {
         return tokenizer_json(
             "char", "\"special\":[" + list(n, [](size_t i) { return "[" + word(i) + "]"; }) + "],",
             "\"a\"");
       },
       load},
      {"tokenizer: word",
       [=](size_t n) { return tokenizer_json("word", "\"lower_case\":true,", list(n, word)); },
       load},
      {"tokenizer: one word",
       [=](size_t n) {
         return tokenizer_json("word", "\"lower_case\":true,", '"' + std::string(n, 'a') + '"');
       },
       load},
      {"tokenizer: bpe, not bytes",
       [=](size_t n) { return tokenizer_json("bpe", "\"merges\":[\"a b\"],", list(n, word)); },
       load},
      {"gpt2's files", gpt2, load_gpt2},
      {"gpt2's merges, damaged",
       [=](size_t n) {
         gpt2(0);
         return std::string(n, 'a') + " " + std::string(n, 'b');
       },
       load_gpt2},
      {"token file",
       [](size_t n) {
         return "gradtok1" + little_endian(2, 8) + little_endian(n, 8) + little_endian(30000, 8) +
                std::string(16, '0') + std::string(16, '\0') + std::string(2 * n, 'a');
       },
       [](const std::string& path) { TokenFile(path).verify(); }},
  };
}

std::vector<Format> text_formats(const TemporaryFolder& folder) {
  const auto words = [](size_t n) {
    return repeated(
        n, "", [](size_t i) { return word(i * 7919 % 100003) + ' '; }, "");
  };
  const auto same = [](size_t n) { return std::string(n, 'a'); };
  const auto with = [&folder](auto use) {
    return [=, &folder](const std::string& path) {
      static const BPETokenizer bpe =
          BPETokenizer::train(std::string(5000, 'a') + " the the they then", {.vocab_size = 300});
      use(bpe, read_file(path));
      TokenFile::write(folder / "tokens", path, bpe, {.piece = 1 << 12});
    };
  };
  const auto encode =
      with([](const BPETokenizer& bpe, const std::string& text) { bpe.decode(bpe.encode(text)); });
  const auto train_words = [](const std::string& path) {
    const std::string text = read_file(path);
    const WordTokenizer tokenizer(text, {.lower_case = true});
    tokenizer.decode(tokenizer.encode(text));
  };
  const auto train_bpe = [](const std::string& path) {
    BPETokenizer::train(read_file(path), {.vocab_size = 1000});
  };
  return {
      {"bpe: words", words, encode},
      {"bpe: one word", same, encode},
      {"bpe: spaces", [](size_t n) { return std::string(n, ' '); }, encode},
      {"bpe: cuts at each piece's start",
       [](size_t n) {
         return repeated(
             n, "", [](size_t) { return ' ' + std::string(4095, 'x'); }, "");
       },
       encode},
      {"bpe: made of words", words, train_bpe},
      {"bpe: made of one word", same, train_bpe},
      {"bpe: made of noise",
       [](size_t n) {
         uint64_t x = 1;
         return repeated(
             n, "",
             [&](size_t) {
               return std::string(
                   1, static_cast<char>((x = x * 6364136223846793005 + 1442695040888963407) >> 56));
             },
             "");
       },
       train_bpe},
      {"words", words, train_words},
      {"words: one", same, train_words},
      {"words: punctuation", [](size_t n) { return std::string(n, '"'); }, train_words},
      {"characters", words,
       [](const std::string& path) {
         const std::string text = read_file(path);
         const CharTokenizer tokenizer(text);
         tokenizer.decode(tokenizer.encode(text));
       }},
      {"characters: unknown", [](size_t n) { return std::string(n, 'a') + "b"; },
       [](const std::string& path) { CharTokenizer("a").encode(read_file(path)); }},
      {"words: unknown", same,
       [](const std::string& path) {
         WordTokenizer("b", {.special = {}}).encode(read_file(path));
       }},
  };
}

std::vector<Format> pair_formats(const TemporaryFolder&) {
  const auto read = [](const std::string& path) { read_pairs(path, {.skip_bad = true}); };
  return {
      {"pairs",
       [](size_t n) {
         return repeated(
             n, "", [](size_t i) { return word(i) + '\t' + word(i) + '\n'; }, "");
       },
       read},
      {"pairs: one line", [](size_t n) { return "a\t" + std::string(n, 'b'); }, read},
      {"pairs: spaces", [](size_t n) { return std::string(n, ' ') + "\ta"; }, read},
      {"pairs: tabs", [](size_t n) { return std::string(n, '\t'); }, read},
      {"pairs: empty lines", [](size_t n) { return std::string(n, '\n'); }, read},
      {"pairs: not UTF-8",
       [](size_t n) {
         return repeated(
             n, "", [](size_t) { return "\xff\n"; }, "");
       },
       read},
  };
}

std::vector<Format> image_formats(const TemporaryFolder& folder) {
  const auto idx = [](size_t n) { return "\0\0\10\1"s + big_endian(n) + std::string(n, 'x'); };
  const auto load_idx = [](const std::string& path) { read_idx(path); };
  const auto load_png = [](const std::string& path) { read_png(path); };
  const auto png = [](size_t width, size_t height, const std::string& more) {
    const std::string rows(height * (width + 1), '\0');
    std::string zipped(compressBound(rows.size()), '\0');
    uLongf n = zipped.size();
    REQUIRE(compress2(reinterpret_cast<Bytef*>(zipped.data()), &n,
                      reinterpret_cast<const Bytef*>(rows.data()), rows.size(), 0) == Z_OK);
    zipped.resize(n);
    return "\x89PNG\r\n\x1a\n" +
           chunk("IHDR", big_endian(width) + big_endian(height) + "\10\0\0\0\0"s) + more +
           chunk("IDAT", zipped) + chunk("IEND", "");
  };
  const auto chunks = [=](size_t n, const std::string& one) {
    return png(1, 1,
               repeated(
                   n, "", [&](size_t) { return one; }, ""));
  };
  const auto record = [](size_t n) {
    return repeated(
        n, "", [](size_t) { return '\1' + std::string(3072, 'p'); }, "");
  };
  return {
      {"idx", idx, load_idx},
      {"idx, packed",
       [=](size_t n) {
         std::string noise = idx(2 * n);
         for (size_t i = 8; i < noise.size(); ++i)
           noise[i] = static_cast<char>(i * i * 2654435761u >> 13);
         return gzip(noise);
       },
       load_idx},
      {"idx, packed in members",
       [=](size_t n) {
         const std::string empty = gzip("");
         return gzip(idx(10)) + repeated(
                                    n, "", [&](size_t) { return empty; }, "");
       },
       load_idx},
      {"cifar", record,
       [&folder](const std::string& path) {
         for (int i = 1; i <= 5; ++i)
           std::filesystem::copy_file(path, folder / ("data_batch_" + std::to_string(i) + ".bin"),
                                      std::filesystem::copy_options::overwrite_existing);
         std::filesystem::rename(path, folder / "test_batch.bin");
         read_cifar10(folder.path.string());
       }},
      {"cifar: names", [](size_t n) { return std::string(n, '\n'); },
       [&folder](const std::string& path) {
         std::filesystem::rename(path, folder / "batches.meta.txt");
         read_cifar10(folder.path.string());
       }},
      {"png", [=](size_t n) { return png(1000, n / 1000, ""); }, load_png},
      {"png: texts", [=](size_t n) { return chunks(n, chunk("tEXt", "a\0b"s)); }, load_png},
      {"png: unknown chunks", [=](size_t n) { return chunks(n, chunk("xyZz", "")); }, load_png},
      {"png: palettes", [=](size_t n) { return chunks(n, chunk("sPLT", "a\0\10"s)); }, load_png},
      {"png: empty data", [=](size_t n) { return chunks(n, chunk("IDAT", "")); }, load_png},
  };
}

/// The shorter of two read times, in seconds.
double seconds_of(const Format& format, const std::string& bytes, const std::string& path) {
  using Clock = std::chrono::steady_clock;
  double least = 1e9;
  for (int i = 0; i < 2; ++i) {
    overwrite(path, bytes);
    const auto start = Clock::now();
    try {
      format.read(path);
    } catch (const Error&) {
    }
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return least;
}

}  // namespace

TEST_CASE("growth: files are read in time linear in their size", "[.growth]") {
  for (const auto& formats : {safetensors_formats, json_formats, tokenizer_formats, text_formats,
                              pair_formats, image_formats}) {
    const TemporaryFolder folder;
    for (const Format& format : formats(folder)) {
      std::printf("%-34s ms at 1, 2, 4, 8 MB:", format.name);
      std::vector<double> seconds;
      for (const size_t megabytes : {1, 2, 4, 8}) {
        const std::string bytes = format.make(megabytes << 20);
        seconds.push_back(seconds_of(format, bytes, folder / "file"));
        std::printf(" %8.1f", seconds.back() * 1e3);
        std::fflush(stdout);
      }
      std::puts("");
      CAPTURE(format.name);
      CHECK(seconds[3] < 12 * seconds[1] + 0.03);  // linear: 4 times; quadratic: 16
    }
  }
}

}  // namespace file_growth_test
