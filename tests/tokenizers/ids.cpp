// Encodes texts: writes [[ids, text decoded from them], ...] for a JSON array of texts.
//
//   build/bin/tokenizer_ids MODEL texts.json > ids.json
//
// MODEL is a tokenizer.json or a model folder.

#include <gradus/gradus.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "gradus/core/files/file.h"

int main(int argc, char** argv) try {
  if (argc != 3) throw gradus::Error("usage: tokenizer_ids MODEL texts.json");
  const auto tokenizer = gradus::models::load_tokenizer(argv[1]);
  nlohmann::json all = nlohmann::json::array();
  for (const nlohmann::json& text : nlohmann::json::parse(gradus::read_file(argv[2]))) {
    const std::vector<int64_t> ids = tokenizer->encode_with_special(text);
    all.push_back({ids, tokenizer->decode(ids)});
  }
  std::cout << all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return 0;
} catch (const std::exception& e) {
  std::cerr << "tokenizer_ids: " << e.what() << '\n';
  return 1;
}
