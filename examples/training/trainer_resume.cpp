// What a Trainer stores in checkpoints besides weights and optimiser, and reads back.

#include <cstdio>

#include "examples/training/trainer.h"

namespace gradus {

void Trainer::resume(const models::Checkpoint& checkpoint) {
  const std::string where = folder_.checkpoint();
  const Metadata& metadata = checkpoint.metadata();
  const std::string& data = stored_text(metadata, metadata.contains("text") ? "text" : "data",
                                        where);  // "text": written by earlier versions
  if (data != info_.data_id) {
    const std::string differs = "the data differs from that of the run in " + o_.out;
    core::check(o_.eval_only, differs);
    std::printf("%s: it may have been trained on this validation set\n", differs.c_str());
  }
  const int64_t step = stored_count(metadata, "step", where);
  core::check(step <= o_.steps || o_.eval_only, "the run in ", o_.out, " has done ", step,
              " steps, more than --steps ", o_.steps);
  seconds_before_ = stored_seconds(metadata, "seconds", where);
  checkpoint.restore(task_.model(), *optimizer_, average_ ? &*average_ : nullptr);
  step_ = saved_step_ = step;
  if (o_.eval_only) return;
  if (metadata.contains("rate_by_hand"))
    page_.set_rates(RateByHand::from_text(metadata.at("rate_by_hand"), where));
  losses_.read_up_to(step_);
  if (metadata.contains("best_step"))  // missing in checkpoints of earlier versions
    losses_.set_best(
        {stored_count(metadata, "best_step", where), stored_number(metadata, "best_loss", where)});
  if (!ranks_.is_first()) return;
  steps_.cut_after(step_);
  if (events_) events_->cut_after(step_);
  // Saves the best model: the run may have been killed before it did. (If the step's row is lost,
  // the step is evaluated again.)
  if (is_best() && losses_.last_step() == step_) task_.save(folder_ / "best");
}

Metadata Trainer::metadata() const {
  Metadata metadata{{"options", options_json_},
                    {"step", std::to_string(step_)},
                    {"seconds", std::to_string(seconds())},
                    {"data", info_.data_id}};
  if (const std::optional<LossLog::Best>& lowest = losses_.best()) {
    metadata["best_step"] = std::to_string(lowest->step);
    metadata["best_loss"] = LossLog::number(lowest->validation_loss);
  }
  if (!page_.rates().empty()) metadata["rate_by_hand"] = page_.rates().text();
  return metadata;
}

}  // namespace gradus
