package transcript

// The queries over what a branch shows are made of the fragments of this file: its own
// entries, and those of its ancestors up to where it forked.

// SeenFrom returns the table `seen` of what a branch, given by an expression for its id, shows:
// the branches that it comes from, each up to where it was left, and itself without an end.
func SeenFrom(branch string) string {
	return `
	(SELECT ` + branch + `::text AS branch_id, 9223372036854775807::bigint AS upto
	 UNION ALL
	 SELECT l.branch_id, l.upto FROM branches seer, jsonb_to_recordset(seer.lineage) AS l (branch_id text, upto bigint)
	     WHERE seer.id = ` + branch + `) seen`
}

// IsDeprecated returns a condition on an entry and an expression for a branch: a what-if has left the entry out of the branch, or
// of one that it comes from. A branch that was left shows the entry as before.
func IsDeprecated(entry, branch string) string {
	return `coalesce(` + entry + `.deprecated_on && ARRAY(SELECT branch_id FROM ` + SeenFrom(branch) + `), false)`
}

// ThisBranch and branchOfLoop are what a query's branch is known by: its $1 is
// the branch's id, or that of the chat of the loop $2.
const (
	ThisBranch   = `$1`
	branchOfLoop = `(SELECT coalesce(l.branch_id, c.branch_id) FROM chats c LEFT JOIN loops l ON l.id = $2 WHERE c.id = $1)`
)

// OnBranch returns the table e of the entries that branch $1 shows and that fit a condition on
// their columns, such as a range of sequence. OFFSET 0 keeps the planner from turning the walk along the branch's
// index into one over all entries.
func OnBranch(within string) string {
	return SeenFrom(ThisBranch) + `
	CROSS JOIN LATERAL (
		SELECT * FROM entries WHERE branch_id = seen.branch_id AND sequence < seen.upto AND ` + within + ` OFFSET 0) e`
}
