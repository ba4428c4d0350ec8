// Package envtable lists the environment variables that a role reads, from the
// struct of its flags. It must not know what any of them means.
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
	Value    string // what is in effect; secrets are masked
	Default  string
	Help     string
}

// Of lists the variables of a struct of flags in its order, those of embedded
// structs among them. Numbers and switches have a value also when they are zero.
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

// shown returns the value of a variable as any caller may see it. Numbers, switches and times
// are no secrets, whatever their names are.
func shown(variable string, value reflect.Value) string {
	if value.CanInt() || value.CanUint() || value.CanFloat() || value.Kind() == reflect.Bool {
		return text(value)
	}

	return Masked(variable, text(value))
}

// text writes a value as the variable takes it.
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

// short is 1h, not 1h0m0s.
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
	pathName   = regexp.MustCompile(`_(DIR|FILE)$`) // says where a secret is, and is none
	userinfo   = regexp.MustCompile(`//[^/?#\s]*@`)
	parameters = regexp.MustCompile(`([?&])([^=&#\s]+)=([^&#,\s]*)`)
)

// Masked masks what must not be shown of a variable's value: secrets whole; of
// addresses the user with the password, and parameters that are named as secrets.
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
