#pragma once
// The loss curve of a training run: loss.csv and loss.png.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/logs/step_log.h"

namespace gradus {

/// Named values, for example {"accuracy", 0.97}.
using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// Estimates of the losses during a run, stored in FOLDER/loss.csv.
class LossLog {
 public:
  struct Row {
    int64_t step;
    double train_loss;
    double validation_loss;
    NamedNumbers more = {};  ///< other validation scores; add() gives all rows the same names, with
                             ///< NaN for scores that a row lacks
  };
  struct Best {
    int64_t step;
    double validation_loss;
  };
  /// Makes the log of a folder, without reading it. If `writes` is false, add() does not write
  /// loss.csv: another rank of the run does.
  explicit LossLog(std::string folder, bool writes = true)
      : folder_(std::move(folder)), writes_(writes) {}

  /// Replaces the rows by those of loss.csv up to `step`, or by none if the file cannot be opened.
  /// A run resumed at `step` will write the later rows again. Throws Error, naming the line, on a
  /// malformed row or header.
  void read_up_to(int64_t step);
  /// Sets best() to the value stored in a resumed run's checkpoint, because loss.csv may lack the
  /// best row.
  void set_best(Best best) { best_ = best; }
  /// Appends a row, rounded to the precision of loss.csv, and writes loss.csv. Throws Error on
  /// failure.
  void add(Row row);
  /// Returns the first step with the lowest validation loss, or nullopt if there are no rows. A NaN
  /// counts as higher than every number.
  const std::optional<Best>& best() const { return best_; }
  /// Returns the step of the last row, or -1 if there is none.
  int64_t last_step() const { return rows_.empty() ? -1 : rows_.back().step; }
  /// Returns the last row. Must not be called if there are no rows.
  const Row& last() const { return rows_.back(); }
  /// Formats a number with 7 significant digits, as in loss.csv.
  static std::string number(double number);
  /// Returns the number of rows with a step after `step`.
  int64_t rows_after(int64_t step) const;
  /// Returns the last row as a line to print, for example "step 250 train 2.0113 val 2.0891
  /// accuracy 0.4312".
  std::string last_line() const;
  /// Returns the plot for FOLDER/loss.png: the losses of all steps (in a long run, means of groups
  /// of steps), and the estimates of the training and the validation loss. The y axis is
  /// logarithmic if the estimates are positive, NaN aside, and the largest is more than five times
  /// the smallest.
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
