//! Tables of cases by hand, and random histories beside a model that knows every object's version.
