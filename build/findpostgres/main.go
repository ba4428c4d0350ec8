// Command findpostgres prints the directory of the PostgreSQL programs that
// Everloop would start, or says why there are none. build/setup.sh asks it.
package main

import (
	"context"
	"fmt"
	"os"

	"everloop/internal/pgprograms"
)

func main() {
	found, err := pgprograms.Find(context.Background(), os.Getenv("POSTGRES_BIN_DIR"), 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	fmt.Println(found.BinDir)
}
