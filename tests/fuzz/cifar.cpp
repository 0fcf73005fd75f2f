#include "gradus/models/data/images/cifar.h"

#include "tests/fuzz/fuzz.h"

namespace cifar_fuzz {

using namespace gradus;

namespace {

const std::string record = '\3' + std::string(3 * 32 * 32, 'p');
const std::string names = "a\nb\nc\nd\ne\nf\ng\r\nh \n\ni\nj";

std::vector<std::string> seeds() {
  return {fuzz::join({names, record}), fuzz::join({names, record + record}),
          fuzz::join({"", record})};
}

void run(const std::string& bytes) {
  const auto parts = fuzz::split(bytes, 2);
  fuzz::remove("batches.meta.txt");
  if (!parts[0].empty()) fuzz::write(parts[0], "batches.meta.txt");
  for (const char batch : {'1', '2', '4', '5'})
    fuzz::write(record, std::string("data_batch_") + batch + ".bin");
  fuzz::write(parts[1], "data_batch_3.bin");
  fuzz::write(parts[1], "test_batch.bin");
  models::read_cifar10(fuzz::path_of(""));
}

const fuzz::Register target{{"cifar", seeds, run}};

}  // namespace

}  // namespace cifar_fuzz
