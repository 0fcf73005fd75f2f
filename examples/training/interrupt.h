#pragma once

namespace gradus {

/// From now on Ctrl-C (SIGINT), SIGTERM, the end of the terminal (SIGHUP) and that of who reads the
/// output (SIGPIPE) make interrupted() true instead of ending the program, so that it can save first.
/// A second SIGINT or SIGTERM ends it at once. SIGHUP and SIGPIPE that were ignored (nohup) stay so.
void catch_interrupts();

/// Whether such a signal came.
bool interrupted();

}  // namespace gradus
