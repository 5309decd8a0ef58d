"""`make schemas`: writes docs/schemas from the types in the code."""

from docs.schemas.write import main

if __name__ == "__main__":
    main()
