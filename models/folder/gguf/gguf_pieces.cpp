#include "gradus/models/folder/gguf/gguf_pieces.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/data/tokenizers/utf8.h"
#include "gradus/models/folder/gguf/gguf_tokenizer.h"

namespace gradus::models::internal {

using nlohmann::json, nlohmann::ordered_json;

namespace {

constexpr const char* space_mark = "\xe2\x96\x81";  // ▁

bool is_byte(const std::string& token) { return token.size() == 6 && token.starts_with("<0x"); }

/// Calls f(left, right) for each way to cut a token into two, at characters.
template <class F>
void for_each_cut(const std::string& token, const F& f) {
  for (size_t at = 0; at < token.size();) {
    char32_t code_point;
    read_code_point(token, at, code_point);
    if (at < token.size()) f(token.substr(0, at), token.substr(at));
  }
}

/// Returns whether the tokenizer puts a space before every text. Throws Error if it puts one before
/// some texts only.
bool adds_space(const json& root) {
  // HuggingFaceBPE accepts no normalizer of pieces but a Sequence of Prepend and Replace.
  if (root.contains(json::json_pointer("/normalizer/normalizers/0"))) return true;
  const json before = root.value("pre_tokenizer", json());
  const json part = before.value(json::json_pointer("/pretokenizers/0"), before);
  check(part.value("prepend_scheme", json()) == "never",
        "save_gguf: the tokenizer puts a space before some texts only (pre_tokenizer), llama.cpp "
        "before all or none");
  return false;
}

/// The negative rank of the first merge that makes each token of model.vocab.
std::unordered_map<std::string, double> scores_of(const HuggingFaceBPE& tokenizer,
                                                  const json& model) {
  std::unordered_map<std::string, double> scores;
  std::unordered_set<std::string> pairs;
  std::string before;  // the token that the previous merge makes
  for (const json& merge : model["merges"]) {
    const std::string pair =
        merge.is_array() ? std::string(merge[0]) + ' ' + std::string(merge[1]) : std::string(merge);
    const size_t space = pair.find(' ');
    const std::string token = pair.substr(0, space) + pair.substr(space + 1);
    const bool is_new = scores.emplace(token, -static_cast<double>(pairs.size())).second;
    check(is_new || token == before, "save_gguf: merges that make ", shown(json(token)),
          " lie apart, llama.cpp would give them all the rank of the first");
    before = token;
    pairs.insert(pair);
  }
  const json& vocab = model["vocab"];
  const auto is_piece = [&](const std::string& token) {
    return vocab.contains(token) && tokenizer.added(token) < 0;
  };
  for (const auto& [token, id] : vocab.items())
    if (!is_byte(token) && is_piece(token))
      for_each_cut(token, [&](const std::string& left, const std::string& right) {
        const bool is_pair = is_piece(left) && is_piece(right);
        check(!is_pair || pairs.contains(left + ' ' + right), "save_gguf: llama.cpp would merge ",
              shown(json(left)), " and ", shown(json(right)), ", the tokenizer does not");
      });
  return scores;
}

}  // namespace

bool has_pieces(const HuggingFaceBPE& tokenizer) {
  return parse_json("the tokenizer", tokenizer.to_json())["model"].value("byte_fallback", json()) ==
         true;
}

void add_gguf_pieces(ordered_json& metadata, const HuggingFaceBPE& tokenizer, int64_t vocab) {
  const json root = parse_json("the tokenizer", tokenizer.to_json()), &model = root["model"];
  const json unknown = model.value("unk_token", json());
  auto scores = scores_of(tokenizer, model);
  Vocabulary v{.model = "llama"};
  std::vector<double> all_scores;
  const double lowest = -static_cast<double>(model["merges"].size());
  for (const std::string& token : tokenizer.tokens()) {
    const auto other = tokenizer.added(token) >= 0 ? user_defined : is_byte(token) ? byte : normal;
    v.add(token, token == unknown ? unknown_token : tokenizer.has_special(token) ? control : other);
    all_scores.push_back(v.types.back() == normal ? scores.emplace(token, lowest).first->second
                                                  : 0);
  }
  while (std::ssize(v.tokens) < vocab)
    v.add("<unused" + std::to_string(v.tokens.size()) + ">", unused);
  all_scores.resize(v.tokens.size());
  metadata[in_ggml("model")] = v.model;
  metadata[in_ggml("tokens")] = v.tokens;
  metadata[in_ggml("scores")] = all_scores;
  metadata[in_ggml("token_type")] = v.types;
  metadata[in_ggml("add_space_prefix")] = adds_space(root);
  const std::vector<int64_t> begin = tokenizer.begin_ids();
  metadata[in_ggml("add_bos_token")] = !begin.empty();
  if (!begin.empty()) metadata[in_ggml("bos_token_id")] = begin[0];
  if (tokenizer.has_special("</s>")) metadata[in_ggml("eos_token_id")] = tokenizer.special("</s>");
  if (unknown.is_string()) metadata[in_ggml("unknown_token_id")] = tokenizer.special(unknown);
}

// ---- reading ----

namespace {

std::vector<double> scores_in(const ordered_json& metadata, size_t count) {
  const json all = metadata.value(in_ggml("scores"), ordered_json());
  const auto finite = [](const json& s) { return s.is_number() && std::isfinite(s.get<double>()); };
  if (!all.is_array() || all.size() != count || !std::all_of(all.begin(), all.end(), finite))
    fail("metadata \"", in_ggml("scores"), "\": expected an array of ", count, " finite numbers");
  return all;
}

/// All pairs of tokens that make a token, the highest score first.
json merges_of(const json& vocab, const std::vector<double>& scores) {
  struct Merge {
    double score;
    int64_t id;
    std::string left, right;
  };
  std::vector<Merge> found;
  for (const auto& [token, value] : vocab.items()) {
    const auto id = value.get<int64_t>();
    if (token.size() > 1024)
      fail("metadata \"", in_ggml("tokens"), "\": expected at most 1024 bytes, got ", token.size());
    if (!is_byte(token))
      for_each_cut(token, [&](const std::string& left, const std::string& right) {
        if (vocab.contains(left) && vocab.contains(right))
          found.push_back({scores[static_cast<size_t>(id)], id, left, right});
      });
  }
  std::stable_sort(found.begin(), found.end(), [](const Merge& a, const Merge& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  });
  json merges = json::array();
  for (const Merge& m : found) merges.push_back({m.left, m.right});
  return merges;
}

json replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

}  // namespace

std::unique_ptr<Tokenizer> read_gguf_pieces(const ordered_json& metadata, int64_t vocab) {
  const Vocabulary v = read_vocabulary(
      metadata, vocab, {normal, unknown_token, control, user_defined, unused, byte});
  const std::vector<double> scores = scores_in(metadata, static_cast<size_t>(vocab));
  json pieces = json::object(), added = json::array(), unknown;
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const int type = v.types[id];
    check_utf8("metadata \"tokenizer.ggml.tokens\"", v.tokens[id]);
    if (type == normal || type == byte)
      pieces[v.tokens[id]] = id;
    else
      added.push_back({{"id", id}, {"content", v.tokens[id]}, {"special", type != user_defined}});
    if (type == unknown_token) unknown = v.tokens[id];
  }
  const bool is_spaced = metadata.value(in_ggml("add_space_prefix"), ordered_json(true)) == true;
  json decoders{replace(space_mark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (is_spaced)
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  json root{{"added_tokens", added},
            {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
            {"model",
             {{"type", "BPE"},
              {"byte_fallback", true},
              {"unk_token", unknown},
              {"vocab", pieces},
              {"merges", merges_of(pieces, scores)}}}};
  if (is_spaced)
    root["normalizer"] = {
        {"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", space_mark}}, replace(" ", space_mark)}}};
  else
    root["pre_tokenizer"] = {{"type", "Metaspace"},
                             {"replacement", space_mark},
                             {"split", false},
                             {"prepend_scheme", "never"}};
  if (const json first = first_token(metadata, v, true); !first.is_null())
    root["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", first}}}}, {{"Sequence", {{"id", "A"}}}}}}};
  return std::make_unique<HuggingFaceBPE>(TokenizerFile{root});
}

}  // namespace gradus::models::internal
