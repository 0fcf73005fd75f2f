#pragma once
// The curve of a training run: loss.csv and loss.png.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/pictures/plot.h"

namespace gradus {

/// Numbers by name: {"accuracy", 0.97}.
using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// Estimates of the losses, kept in FOLDER/loss.csv.
class LossLog {
 public:
  struct Row {
    int64_t step;
    double train_loss;
    double validation_loss;
    NamedNumbers more = {};  ///< of the validation part; the same names in every row
  };
  struct Best {
    int64_t step;
    double validation_loss;
  };
  explicit LossLog(std::string folder) : folder_(std::move(folder)) {}

  /// Reads loss.csv, if there is one, as far as `step`: a run that is resumed there writes the later
  /// rows again. Throws Error, naming the line, on what is no row, or not the header.
  void read_up_to(int64_t step);
  /// What best() was at that step, whose row may have been lost since.
  void set_best(Best best) { best_ = best; }
  /// Appends a row, rounded to what loss.csv holds of it, and writes loss.csv.
  void add(Row row);
  /// The step with the lowest validation loss, the first if several, if there is one.
  const std::optional<Best>& best() const { return best_; }
  /// The step of the last row; -1 if there is none.
  int64_t last_step() const { return rows_.empty() ? -1 : rows_.back().step; }
  const Row& last() const { return rows_.back(); }
  /// A number as loss.csv has it.
  static std::string number(double number);
  /// How many rows there are of later steps.
  int64_t rows_after(int64_t step) const;
  /// "step 250 train 2.0113 val 2.0891 accuracy 0.4312".
  std::string last_line() const;
  /// The curves of both losses, as FOLDER/loss.png shows them.
  Picture picture(const std::string& title, const std::string& loss_name) const;

 private:
  void append(const Row& row);

  std::string folder_;
  std::vector<Row> rows_;
  std::optional<Best> best_;
};

}  // namespace gradus
