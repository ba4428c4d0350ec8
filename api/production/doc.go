// Package production is the area of the interface for unattended work: solutions with their
// DAGs and runs, agents, schedules, workspaces with issues, webhooks. It must not know
// the workflows that do the work.
package production
