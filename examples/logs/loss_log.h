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

/// The training and validation losses that a run estimates at intervals, stored in FOLDER/loss.csv.
class LossLog {
 public:
  struct Row {
    int64_t step;
    double train_loss;
    double validation_loss;
    /// Other validation scores, by name. add() gives every row all names that occur in any row, and
    /// sets the scores that a row lacks to NaN.
    NamedNumbers more = {};
  };
  struct Best {
    int64_t step;
    double validation_loss;
  };
  /// Makes an empty log for the folder. Reads no file. If `writes` is false, add() does not write
  /// loss.csv, because another rank of the run writes it.
  explicit LossLog(std::string folder, bool writes = true)
      : folder_(std::move(folder)), writes_(writes) {}

  /// Replaces all rows with the rows of loss.csv up to `step`, the step at which a run resumes, and
  /// sets best() from these rows. If the file cannot be opened, the log becomes empty. Throws
  /// Error, naming the line, on a malformed row or header.
  void read_up_to(int64_t step);
  /// Sets best(). A resumed run takes this value from its checkpoint, because loss.csv may lack the
  /// best row.
  void set_best(Best best) { best_ = best; }
  /// Appends a row, rounded to the precision of loss.csv, and writes loss.csv. Throws Error on
  /// failure.
  void add(Row row);
  /// Returns the lowest validation loss so far and the first step that has it, or nullopt if none
  /// is known. NaN counts as higher than every number.
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
  /// Returns the plot for FOLDER/loss.png. It shows the losses of all steps (in a long run, means
  /// of groups of steps) and the estimated training and validation losses. The y axis is
  /// logarithmic if all estimates are positive and the largest is more than five times the
  /// smallest. Estimates that are NaN are ignored.
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
