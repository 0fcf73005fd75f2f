#pragma once

namespace gradus {

/// Installs signal handlers, so that the program can save its state before it ends. After SIGINT
/// (Ctrl-C), SIGTERM, SIGHUP (the terminal was closed) or SIGPIPE (nobody reads the output),
/// interrupted() returns true. A second SIGINT or SIGTERM ends the program at once. SIGHUP and
/// SIGPIPE stay ignored if they were ignored before (nohup).
void catch_interrupts();

/// Returns whether a signal has arrived that catch_interrupts() handles.
bool interrupted();

}  // namespace gradus
