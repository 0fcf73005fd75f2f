#pragma once

namespace gradus {

/// From now on Ctrl-C (SIGINT) and SIGTERM make interrupted() true instead of ending the program,
/// so that it can save first. A second one ends it at once.
void catch_interrupts();

/// Whether such a signal came.
bool interrupted();

}  // namespace gradus
