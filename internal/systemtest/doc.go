// Package systemtest holds the tests of the whole agent loop without its edges: a chat
// from its message to its chat:end, with the database, the event log, the workflows, a
// worker and a scripted model on real engines. They cover what no package owns alone:
// recovery, outages, the ledger, sub-agents, operators, recorded histories. Tests of one
// package belong next to its code.
package systemtest
