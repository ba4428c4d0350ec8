// Package envtable lists the environment variables of a role, from the struct of its flags. It
// must not depend on their meaning.
package envtable

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Row is one variable.
type Row struct {
	Variable string
	Value    string // current value; secrets are masked
	Default  string
	Help     string
}

// Of lists the variables of a struct of flags in its order, including embedded structs. Numbers
// and booleans are listed with a value even if it is zero.
func Of(flags any) []Row {
	var rows []Row
	add(&rows, reflect.ValueOf(flags))

	return rows
}

func add(rows *[]Row, flags reflect.Value) {
	for i := range flags.NumField() {
		field := flags.Type().Field(i)

		variable := field.Tag.Get("env")
		switch {
		case variable != "" && field.IsExported():
			value := flags.Field(i)
			*rows = append(*rows, Row{
				Variable: variable, Value: shown(variable, value), Help: field.Tag.Get("help"),
				Default: cmp.Or(field.Tag.Get("default"), text(reflect.Zero(value.Type()))),
			})
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			add(rows, flags.Field(i))
		}
	}
}

// shown returns the value of a variable without secrets. Numbers, booleans and durations are
// never secret, regardless of their names.
func shown(variable string, value reflect.Value) string {
	if value.CanInt() || value.CanUint() || value.CanFloat() || value.Kind() == reflect.Bool {
		return text(value)
	}

	return Masked(variable, text(value))
}

// text formats a value in the variable's syntax.
func text(value reflect.Value) string {
	switch v := value.Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	case time.Duration:
		return short(v)
	default:
		return fmt.Sprint(v)
	}
}

// short formats a duration as 1h instead of 1h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}

	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}

	return s
}

const hidden = "***"

var (
	secretName = regexp.MustCompile(`(?i)KEY|SECRET|PASSWORD|TOKEN|CREDENTIAL|SIGNATURE`)
	pathName   = regexp.MustCompile(`_(DIR|FILE)$`) // the path of a secret is not secret
	userinfo   = regexp.MustCompile(`//[^/?#\s]*@`)
	parameters = regexp.MustCompile(`([?&])([^=&#\s]+)=([^&#,\s]*)`)
)

// Masked masks the secrets in a variable's value: a secret variable completely; in URLs, the user
// information and parameters with names of secrets.
func Masked(variable, value string) string {
	if value == "" {
		return ""
	}

	secret := secretName.MatchString(variable) && !pathName.MatchString(variable)
	if secret || strings.Contains(value, "password=") && !strings.Contains(value, "://") {
		return hidden
	}

	value = userinfo.ReplaceAllStringFunc(value, func(at string) string {
		user, _, both := strings.Cut(strings.TrimSuffix(at[2:], "@"), ":")
		if !both { // a token instead of a user
			return "//" + hidden + "@"
		}

		return "//" + user + ":" + hidden + "@"
	})

	return parameters.ReplaceAllStringFunc(value, func(parameter string) string {
		part := parameters.FindStringSubmatch(parameter)

		name, err := url.QueryUnescape(part[2])
		if err != nil || secretName.MatchString(name) || slices.Contains([]string{"auth", "pass", "pwd", "sig"}, strings.ToLower(name)) {
			return part[1] + part[2] + "=" + hidden
		}

		return parameter
	})
}
