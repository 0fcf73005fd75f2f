// Checkpoints.

#include "gradus/models/folder/checkpoint.h"

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "gradus/nn/layers.h"
#include "gradus/optim/optim.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temporary_folder.h"

namespace checkpoint_test {

using namespace gradus;
using Catch::Matchers::Contains;

TEST_CASE("a checkpoint of another optimiser is refused and changes nothing", "[checkpoint]") {
  TemporaryFolder folder;
  const std::string path = folder / "x";
  nn::Linear model(2, 2), other(2, 2);
  models::save_checkpoint(path, model, optim::SGD(model.parameters(), {.momentum = 0.9}), {});
  optim::AdamW adam(other.parameters());
  const Tensor weight = other.weight.detach().clone(), bias = other.bias.detach().clone();
  manual_seed(5);
  CHECK_THROWS_WITH(models::Checkpoint(path).restore(other, adam), Contains(path + ": AdamW: "));
  check_same_bits<float>(other.weight.detach(), weight);
  check_same_bits<float>(other.bias.detach(), bias);
  CHECK(default_generator().state().seed == 5);
}

TEST_CASE("a checkpoint that runs out of memory changes nothing", "[checkpoint]") {
  struct WithoutMemory : optim::SGD {
    using SGD::SGD;
    void load_state_dict(const NamedTensors& /*state*/) override { throw std::bad_alloc(); }
  };
  TemporaryFolder folder;
  const std::string path = folder / "x";
  nn::Linear model(2, 2), other(2, 2);
  models::save_checkpoint(path, model, optim::SGD(model.parameters()), {});
  WithoutMemory without_memory(other.parameters());
  const Tensor weight = other.weight.detach().clone();
  CHECK_THROWS_AS(models::Checkpoint(path).restore(other, without_memory), std::bad_alloc);
  check_same_bits<float>(other.weight.detach(), weight);
}

TEST_CASE("a checkpoint of the format without checksums loads", "[checkpoint]") {
  TemporaryFolder folder;
  const std::string path = folder / "x";
  nn::Linear model(2, 2), other(2, 2);
  optim::SGD sgd(model.parameters()), other_sgd(other.parameters());
  models::save_checkpoint(path, model, sgd, {{"step", "3"}});
  auto [header, data] = parts_of(read_file(path));
  header["__metadata__"].erase("gradus.checksum");
  header["__metadata__"].erase("gradus.format");
  write_file_atomically(path, file_of(header.dump(), data));
  const models::Checkpoint old(path);
  CHECK(old.metadata().at("step") == "3");
  old.restore(other, other_sgd);
  check_same_bits<float>(model.weight.detach(), other.weight.detach());

  for (const char* random : {"", "1", "1 x", "-1 2", "1 2 3", "1 18446744073709551616"}) {
    header["__metadata__"]["random"] = random;
    write_file_atomically(path, file_of(header.dump(), data));
    CHECK_THROWS_WITH(models::Checkpoint(path), Contains(path + ": not a checkpoint: "));
  }
}

TEST_CASE("a checkpoint restores the average and the random state", "[checkpoint]") {
  TemporaryFolder folder;
  const std::string path = folder / "x";
  nn::Linear model(2, 2), other(2, 2);
  optim::SGD sgd(model.parameters()), other_sgd(other.parameters());
  optim::WeightAverage average(model.parameters(), 0.5), other_average(other.parameters(), 0.5);
  {
    const NoGrad no_grad;
    model.weight.fill_(3);
  }
  average.update();
  manual_seed(7);
  randn({3});
  const RandomKey random = default_generator().state();
  models::save_checkpoint(path, model, sgd, {}, &average);
  manual_seed(1);
  models::Checkpoint(path).restore(other, other_sgd, &other_average);
  CHECK(default_generator().state().seed == 7);
  CHECK(default_generator().state().counter == random.counter);
  for (size_t i = 0; i < 2; ++i)
    check_same_bits<float>(other_average.means()[i], average.means()[i]);
  check_same_bits<float>(other.weight.detach(), model.weight.detach());
}

TEST_CASE("a checkpoint whose optimiser does not fit leaves the average as it was",
          "[checkpoint]") {
  TemporaryFolder folder;
  const std::string path = folder / "x";
  nn::Linear model(2, 2), other(2, 2);
  const optim::WeightAverage average(model.parameters());
  optim::WeightAverage other_average(other.parameters());
  models::save_checkpoint(path, model, optim::SGD(model.parameters(), {.momentum = 0.9}), {},
                          &average);
  const Tensor mean = other_average.means()[0].clone();
  optim::AdamW adam(other.parameters());
  CHECK_THROWS_WITH(models::Checkpoint(path).restore(other, adam, &other_average),
                    Contains(path + ": AdamW: "));
  check_same_bits<float>(other_average.means()[0], mean);
}

}  // namespace checkpoint_test
