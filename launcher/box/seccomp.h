#ifndef AGENTBOX_BOX_SECCOMP_H
#define AGENTBOX_BOX_SECCOMP_H
struct seccomp_program { int n; };
#endif
