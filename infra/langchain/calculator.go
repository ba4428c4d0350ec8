package langchain

import (
	"fmt"

	starmath "go.starlark.net/lib/math"
	"go.starlark.net/syntax"
)

const maxExpression = 1000 // bytes

// checkExpression lets arithmetic through and nothing else. The framework's
// calculator evaluates a whole language without a bound: a list comprehension
// would keep a processor busy without end, and a repeated string fill the memory.
func checkExpression(text string) string {
	if len(text) > maxExpression {
		return fmt.Sprintf("the expression is longer than %d characters", maxExpression)
	}

	expression, err := syntax.ParseExpr("input", text, 0)
	if err != nil {
		return "this is not an arithmetic expression; write it as (3.5 + 4) * sqrt(2), and powers as pow(2, 10)"
	}

	return checkNode(expression)
}

func checkNode(node syntax.Expr) string {
	switch e := node.(type) {
	case *syntax.Literal:
		if e.Token == syntax.INT || e.Token == syntax.FLOAT {
			return ""
		}

		return "only numbers can be worked with"
	case *syntax.ParenExpr:
		return checkNode(e.X)
	case *syntax.UnaryExpr:
		if e.Op == syntax.PLUS || e.Op == syntax.MINUS {
			return checkNode(e.X)
		}
	case *syntax.BinaryExpr:
		switch e.Op {
		case syntax.PLUS, syntax.MINUS, syntax.STAR, syntax.SLASH, syntax.SLASHSLASH, syntax.PERCENT,
			syntax.LT, syntax.GT, syntax.LE, syntax.GE, syntax.EQL, syntax.NEQ:
			if problem := checkNode(e.X); problem != "" {
				return problem
			}

			return checkNode(e.Y)
		}
	case *syntax.Ident:
		if _, known := starmath.Module.Members[e.Name]; known {
			return ""
		}

		return fmt.Sprintf("%s is unknown; there are pi, e and functions such as sqrt, pow, log and sin", e.Name)
	case *syntax.CallExpr:
		if name, ok := e.Fn.(*syntax.Ident); ok && checkNode(name) == "" {
			for _, argument := range e.Args {
				if problem := checkNode(argument); problem != "" {
					return problem
				}
			}

			return ""
		}

		return "only functions such as sqrt, pow, log and sin can be called"
	}

	return "only numbers, + - * / // %, comparisons, parentheses and functions can be used"
}
