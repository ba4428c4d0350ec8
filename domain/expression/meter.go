package expression

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"

	"everloop/domain/pattern"
)

// The functions of a metered program. An expression cannot name them: inspector rejects calls
// of functions that are not part of the language.
const (
	charged = "_charged" // _charged(value) and _charged(value, steps) return the value
	matched = "_matched" // replaces the operator matches
)

var errTooManySteps = errors.New("it takes too many steps: use smaller lists, or shorter texts")

// meter counts the steps of an evaluation. Every use of a variable and of an element, every
// result of a function or an addition, and every turn of a predicate is charged with its size;
// all other operations take time in proportion to operands that were charged before.
type meter struct{ left int }

func (m *meter) take(steps int) error {
	if m.left -= steps; m.left < 0 {
		return errTooManySteps
	}

	return nil
}

// charge returns its first argument; the second one is a number of further steps.
func (m *meter) charge(args ...any) (any, error) {
	more := 0
	if len(args) > 1 {
		more, _ = args[1].(int)
	}

	return args[0], m.take(more + stepsOf(args[0], m.left))
}

func (m *meter) options() []expr.Option {
	options := []expr.Option{expr.Patch(charges{}), expr.Function(charged, m.charge), expr.Function(matched, m.matches)}

	// Their cost, or the size of their result, is not in proportion to the size of their operands.
	for name, cost := range map[string]func(args []any) int{
		"repeat":   func(args []any) int { return length(args, 0) * number(args, 1) },
		"replace":  func(args []any) int { return (length(args, 0) + 1) * (length(args, 2) + 1) },
		"join":     func(args []any) int { return elements(args) * (length(args, 1) + 1) },
		"trim":     func(args []any) int { return length(args, 0) * (length(args, 1) + 1) },
		"uniq":     func(args []any) int { return elements(args) * stepsOf(args[0], m.left) * 8 },
		"toJSON":   func(args []any) int { return (depth(args[0]) + 1) * stepsOf(args[0], m.left) * 8 },
		"fromJSON": func(args []any) int { return length(args, 0) * 8 },
	} {
		options = append(options, expr.DisableBuiltin(name), expr.Function(name, m.bounded(name, cost)))
	}

	return options
}

// bounded returns a function of the language that charges a cost, in bytes, beforehand.
func (m *meter) bounded(name string, cost func(args []any) int) func(args ...any) (any, error) {
	original := builtin.Builtins[builtin.Index[name]]

	return func(args ...any) (any, error) {
		if len(args) == 0 {
			return nil, fmt.Errorf("%s needs an argument", name)
		}

		if err := m.take(cost(args) / 8); err != nil {
			return nil, err
		}

		if original.Safe != nil {
			result, _, err := original.Safe(args...)
			return result, err
		}

		return original.Func(args...)
	}
}

func (m *meter) matches(args ...any) (any, error) {
	if args[0] == nil || args[1] == nil {
		return false, nil
	}

	text, isText := args[0].(string)
	form, isForm := args[1].(string)

	if !isText || !isForm {
		return nil, errors.New("matches needs two texts")
	}

	compiled, err := pattern.Compile(form)
	if err != nil {
		return nil, err
	}

	if err := m.take(compiled.Instructions * (len(text)/8 + 1)); err != nil {
		return nil, err
	}

	return compiled.MatchString(text), nil
}

// charges wraps the nodes of a syntax tree that are charged.
type charges struct{}

// Visit implements ast.Visitor. The tree is visited from its leaves, so that added nodes are
// not visited.
func (charges) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value != charged && n.Value != matched && builtin.Index[n.Value] == 0 {
			charge(node)
		}
	case *ast.PointerNode, *ast.BuiltinNode:
		charge(node)
	case *ast.CallNode: // a function that replaces a builtin
		if name, named := n.Callee.(*ast.IdentifierNode); named && name.Value != charged && name.Value != matched {
			charge(node)
		}
	case *ast.BinaryNode:
		switch n.Operator {
		case "matches":
			*node = call(matched, n.Left, n.Right)
		case "+", "..":
			charge(node)
		}
	case *ast.PredicateNode:
		var count nodes

		ast.Walk(&n.Node, &count)
		n.Node = call(charged, n.Node, &ast.IntegerNode{Value: int(count)})
	}
}

func charge(node *ast.Node) {
	original := *node
	*node = call(charged, original)
	(*node).SetLocation(original.Location())
}

func call(name string, arguments ...ast.Node) ast.Node {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: arguments}
}

// nodes counts the nodes of a tree.
type nodes int

// Visit implements ast.Visitor.
func (n *nodes) Visit(*ast.Node) { *n++ }

// length returns the bytes of a text among arguments; 0: there is none.
func length(args []any, i int) int {
	if i >= len(args) {
		return 0
	}

	text, _ := args[i].(string)

	return len(text)
}

func number(args []any, i int) int {
	if i >= len(args) {
		return 0
	}

	switch n := args[i].(type) {
	case int:
		return max(0, min(n, maxSteps))
	case float64:
		return max(0, int(min(n, maxSteps)))
	default:
		return maxSteps
	}
}

// elements returns the number of elements of the first argument, a list.
func elements(args []any) int {
	switch list := args[0].(type) {
	case []any:
		return len(list)
	case []string:
		return len(list)
	case []int:
		return len(list)
	default:
		return 1
	}
}

// stepsOf returns the steps of one value: its elements, and an eighth of the bytes of its
// texts. It stops above a limit, so that it takes no longer than the work it charges for.
func stepsOf(value any, limit int) int {
	steps := 1

	switch value := value.(type) {
	case string:
		steps += len(value) / 8
	case []byte:
		steps += len(value) / 8
	case []string:
		for _, text := range value {
			steps += 1 + len(text)/8
		}
	case []int:
		steps += len(value)
	case []any:
		for _, element := range value {
			if steps > limit {
				break
			}

			steps += stepsOf(element, limit-steps)
		}
	case map[string]any:
		for key, element := range value {
			if steps > limit {
				break
			}

			steps += len(key)/8 + stepsOf(element, limit-steps)
		}
	case map[any][]any: // of groupBy
		for _, element := range value {
			if steps > limit {
				break
			}

			steps += stepsOf(element, limit-steps)
		}
	}

	return steps
}

// depth returns the levels of a value.
func depth(value any) int {
	deepest := 0

	switch value := value.(type) {
	case []any:
		for _, element := range value {
			deepest = max(deepest, 1+depth(element))
		}
	case map[string]any:
		for _, element := range value {
			deepest = max(deepest, 1+depth(element))
		}
	}

	return deepest
}

// checkValue rejects a value of more than MaxValue bytes of JSON or maxNesting levels.
func checkValue(value any) error {
	if size := jsonSize(value, MaxValue, 0); size > MaxValue {
		return fmt.Errorf("a value has more than %d bytes, or more than %d levels", MaxValue, maxNesting)
	}

	return nil
}

// jsonSize estimates the size of a value as JSON, in bytes; it stops above a limit.
func jsonSize(value any, limit, level int) int {
	if level > maxNesting {
		return limit + 1
	}

	size := 2

	switch value := value.(type) {
	case nil, bool:
		return 4
	case string:
		if level == 0 {
			return len(value)
		}

		return size + len(value) + strings.Count(value, `"`) + strings.Count(value, `\`)
	case []any:
		for _, element := range value {
			if size += 1 + jsonSize(element, limit-size, level+1); size > limit {
				break
			}
		}

		return size - min(len(value), 1)
	case map[string]any:
		for key, element := range value {
			if size += 4 + len(key) + jsonSize(element, limit-size, level+1); size > limit {
				break
			}
		}

		return size - min(len(value), 1)
	case float64:
		return len(strconv.FormatFloat(value, 'g', -1, 64))
	default:
		return size
	}
}
