package tailrace.spark

import org.apache.spark.sql.types._

/** The types of a schema without names and nullability. They must agree for bytes to fit. */
object SchemaText {
  def apply(schema: StructType): String = schema.fields.map(f => of(f.dataType)).mkString(",")

  private def of(dataType: DataType): String = dataType match {
    case struct: StructType => s"struct<${apply(struct)}>"
    case ArrayType(element, _) => s"array<${of(element)}>"
    case MapType(key, value, _) => s"map<${of(key)},${of(value)}>"
    case user: UserDefinedType[_] => of(user.sqlType)
    case _: StringType => "string"
    case other => other.catalogString
  }
}
