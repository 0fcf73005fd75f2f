#pragma once

namespace gradus {

/// Makes SIGINT (Ctrl-C), SIGTERM, SIGHUP (the terminal closed) and SIGPIPE (nobody reads the
/// output) set interrupted() instead of ending the program, so that it can save first. A second
/// SIGINT or SIGTERM ends it at once. Signals that were ignored before (nohup) stay ignored.
void catch_interrupts();

/// True once such a signal has arrived.
bool interrupted();

}  // namespace gradus
