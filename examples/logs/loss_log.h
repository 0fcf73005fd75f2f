#pragma once
// The loss curve of a training run: loss.csv and loss.png.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/logs/step_log.h"

namespace gradus {

/// Named values, such as {"accuracy", 0.97}.
using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// Estimates of the losses, stored in FOLDER/loss.csv.
class LossLog {
 public:
  struct Row {
    int64_t step;
    double train_loss;
    double validation_loss;
    NamedNumbers more = {};  ///< other validation scores; the same names in every row
  };
  struct Best {
    int64_t step;
    double validation_loss;
  };
  /// Unless `writes`, the rows stay in memory: another rank of the run writes them.
  explicit LossLog(std::string folder, bool writes = true)
      : folder_(std::move(folder)), writes_(writes) {}

  /// Reads loss.csv, if it exists, up to `step`, since a run resumed at `step` rewrites the later
  /// rows. Throws Error, naming the line, on a malformed row or header.
  void read_up_to(int64_t step);
  /// Sets best() of a resumed run from its checkpoint: loss.csv may lack the row.
  void set_best(Best best) { best_ = best; }
  /// Appends a row, rounded to the precision of loss.csv, and writes
  /// loss.csv.
  void add(Row row);
  /// The first step with the lowest validation loss, if any.
  const std::optional<Best>& best() const { return best_; }
  /// The step of the last row; -1 if there is none.
  int64_t last_step() const { return rows_.empty() ? -1 : rows_.back().step; }
  const Row& last() const { return rows_.back(); }
  /// Formats a number as in loss.csv.
  static std::string number(double number);
  /// Number of rows whose step is after `step`.
  int64_t rows_after(int64_t step) const;
  /// The last row as a line to print, such as "step 250 train 2.0113 val 2.0891 accuracy 0.4312".
  std::string last_line() const;
  /// The plot of the steps' losses and of both estimates, FOLDER/loss.png. Its axis is logarithmic
  /// if the largest estimate is more than five times the smallest.
  Picture picture(const std::string& title, const std::string& loss_name,
                  const LossCurve& steps) const;

 private:
  void append(const Row& row);

  std::string folder_;
  bool writes_;
  std::vector<Row> rows_;
  std::optional<Best> best_;
};

}  // namespace gradus
