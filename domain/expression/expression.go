// Package expression checks and evaluates the conditions of users, in the language of
// https://expr-lang.org, at a bounded cost: the library itself bounds neither steps nor the
// size of texts, and an evaluation cannot be interrupted.
package expression

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"everloop/domain/pattern"
)

const (
	maxText  = 16 << 10 // bytes of an expression
	maxNodes = 500      // of its syntax tree
	maxList  = 100_000  // elements of all lists that one evaluation creates

	// MaxValue bounds a value that an expression reads, in bytes of JSON.
	MaxValue = 64 << 10

	// maxNesting bounds the levels of a value: some functions take time that grows with
	// levels times size.
	maxNesting = 100

	// maxSteps bounds one evaluation. A step is an element, or eight bytes of a text.
	maxSteps = 2_000_000
)

// Budget counts the steps of several evaluations.
type Budget struct{ left int }

// NewBudget returns a budget of ten evaluations.
func NewBudget() *Budget { return &Budget{10 * maxSteps} }

// Check returns an error if an expression over variables is invalid.
func Check(code string, variables []string) error {
	_, err := compile(code, variables, nil)
	return err
}

// Holds evaluates an expression with the values of its variables.
func Holds(code string, values map[string]any, budget *Budget) (bool, error) {
	names := make([]string, 0, len(values))

	for name, value := range values {
		if err := checkValue(value); err != nil {
			return false, err
		}

		names = append(names, name)
	}

	meter := &meter{left: min(maxSteps, budget.left)}
	before := meter.left

	defer func() { budget.left -= before - max(meter.left, 0) }()

	program, err := compile(code, names, meter)
	if err != nil {
		return false, err
	}

	if err := meter.take(len(code)); err != nil { // for compiling it
		return false, err
	}

	machine := vm.VM{MemoryBudget: maxList}

	result, err := machine.Run(program, values)
	if err != nil {
		return false, firstLine(err)
	}

	holds, _ := result.(bool)

	return holds, nil
}

// compile compiles an expression; with a meter it returns a program that counts its steps.
func compile(code string, names []string, meter *meter) (*vm.Program, error) {
	if len(code) > maxText {
		return nil, fmt.Errorf("it has %d bytes; at most %d are possible", len(code), maxText)
	}

	tree, err := parser.Parse(code)
	if err != nil {
		return nil, firstLine(err)
	}

	inspector := inspector{}
	if ast.Walk(&tree.Node, &inspector); inspector.err != nil {
		return nil, inspector.err
	}

	variables := types.Map{}
	for _, name := range names {
		variables[name] = types.Any
	}

	// Not optimised: constant ranges would be built here, beyond the bound of lists.
	options := []expr.Option{expr.Env(variables), expr.AsBool(), expr.MaxNodes(maxNodes), expr.Optimize(false)}

	program, err := expr.Compile(code, options...)
	if err != nil || meter == nil {
		return program, firstLine(err)
	}

	program, err = expr.Compile(code, append(options, meter.options()...)...)

	return program, firstLine(err)
}

// inspector finds costs that no step limit covers: nested predicates multiply cost, and
// patterns are compiled together with the expression.
type inspector struct{ err error }

// Visit implements ast.Visitor.
func (i *inspector) Visit(node *ast.Node) {
	if i.err != nil {
		return
	}

	switch n := (*node).(type) {
	case *ast.PredicateNode:
		inner := predicates(0)
		if ast.Walk(&n.Node, &inner); inner > 0 {
			i.err = errors.New("a predicate over a list (all, any, filter, map, …) cannot stand within another one")
		}
	case *ast.CallNode:
		i.err = fmt.Errorf("unknown function %.64s", n.Callee)
	case *ast.BinaryNode:
		if text, constant := n.Right.(*ast.StringNode); constant && n.Operator == "matches" {
			_, i.err = pattern.Compile(text.Value)
		}
	}
}

// predicates counts predicates.
type predicates int

// Visit implements ast.Visitor.
func (p *predicates) Visit(node *ast.Node) {
	if _, is := (*node).(*ast.PredicateNode); is {
		*p++
	}
}

func firstLine(err error) error {
	if err == nil {
		return nil
	}

	first, _, _ := strings.Cut(err.Error(), "\n")

	return errors.New(first)
}

// Members returns the members of a variable that an expression names, as in body.ref and
// body["ref"]; all reports that it also uses the variable in another way.
func Members(code, variable string) (names []string, all bool) {
	tree, err := parser.Parse(code)
	if err != nil {
		return nil, true
	}

	found := members{variable: variable}
	ast.Walk(&tree.Node, &found)

	return found.names, found.uses > len(found.names)
}

type members struct {
	variable string
	names    []string
	uses     int
}

// Visit implements ast.Visitor.
func (m *members) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == m.variable || n.Value == "$env" {
			m.uses++
		}
	case *ast.MemberNode:
		of, isVariable := n.Node.(*ast.IdentifierNode)
		if name, constant := n.Property.(*ast.StringNode); isVariable && constant && of.Value == m.variable {
			m.names = append(m.names, name.Value)
		}
	}
}
