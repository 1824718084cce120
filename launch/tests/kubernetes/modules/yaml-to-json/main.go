// yaml-to-json prints the documents of YAML files as one JSON list. Python's own library has no YAML.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/yaml"
)

func read(path string, documents []any) ([]any, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if document != nil {
			documents = append(documents, document)
		}
	}
}

func main() {
	documents := []any{}
	for _, path := range os.Args[1:] {
		var err error
		if documents, err = read(path, documents); err != nil {
			fmt.Fprintln(os.Stderr, "yaml-to-json:", err)
			os.Exit(1)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(documents); err != nil {
		fmt.Fprintln(os.Stderr, "yaml-to-json:", err)
		os.Exit(1)
	}
}
