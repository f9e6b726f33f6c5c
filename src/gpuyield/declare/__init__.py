"""What teams promise: gpuyield.yaml, job and capacity files, objectives and deadlines, with every mistake said well."""
