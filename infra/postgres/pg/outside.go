package pg

// ReadsOutside is a condition on the tool call t: it has a result from outside, such as a
// page or the answer of a tool server, whose author can be hostile.
const ReadsOutside = `t.status IN ('done', 'error') AND
	(t.tool_name IN ('WebFetch', 'WebSearch') OR starts_with(t.tool_name, 'mcp__') OR t.connections IS NOT NULL)`
