// Command specified prints the operations that the specification names, one a
// line, as api/testdata/specified.txt keeps them. Its argument is the folder of the
// specification.
package main

import (
	"fmt"
	"os"

	"everloop/internal/specified"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: specified <folder of the specification>")
		os.Exit(2)
	}

	operations, err := specified.Operations(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "specified:", err)
		os.Exit(1)
	}

	for _, operation := range operations {
		fmt.Println(operation)
	}
}
